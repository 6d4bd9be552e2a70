# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros init-robot``: a robot YAML that fits a checkpoint, for the user to fill in."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from phyai_ros.engine.types import PolicyError
from phyai_ros.tools import console, policy_options
from phyai_ros.tools.describe import describe
from phyai_ros.tools.robot_skeleton import GAP, skeleton

_EPILOG = f"""examples:
  phyai-ros init-robot --checkpoint lerobot/smolvla_base --name my_arm
  phyai-ros init-robot --checkpoint path/to/checkpoint --name my_arm --out config

Writes NAME.yaml (the robot) and NAME_FAMILY.yaml (the model on it). Fill in every {GAP}; then
  phyai-ros check --checkpoint DIR --robot NAME.yaml --model NAME_FAMILY.yaml
  phyai-ros up robot:=NAME.yaml model:=NAME_FAMILY.yaml
exit status: 0 written, 1 the checkpoint cannot be used or a file is in the way, 2 wrong usage
"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="phyai-ros init-robot",
        description="Write a robot YAML that fits a checkpoint, with the gaps marked.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    policy_options.add_checkpoint(parser)
    parser.add_argument("--name", default="my_robot", help="the robot's name (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where to write")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    options = parser.parse_args(list(words))
    if not re.fullmatch(r"[A-Za-z]\w*", options.name):
        parser.error(f"--name: expected a word of letters, digits and _, found {options.name!r}")
    checkpoint = policy_options.checkpoint(options)
    try:
        found = describe(
            checkpoint,
            family=options.family,
            embodiment=options.embodiment,
            revision=options.revision,
        )
    except PolicyError as error:
        console.fail(str(error))
        return 1
    spec = found.specs[0]
    if len(found.specs) > 1:
        tags = ", ".join(str(s.embodiment) for s in found.specs)
        console.fail(f"the checkpoint has several embodiments, name one with --embodiment: {tags}")
        return 1
    path = Path(checkpoint)
    text = skeleton(spec, options.name, spec.family, str(path.resolve() if path.is_dir() else path))
    files = {
        options.out / f"{options.name}.yaml": text.robot,
        options.out / f"{options.name}_{spec.family}.yaml": text.model,
    }
    return _write(files, text.gaps, options.force, options.json)


def _write(files: dict[Path, str], gaps: int, force: bool, as_json: bool) -> int:
    there = [str(f) for f in files if f.exists()]
    if there and not force:
        console.fail(f"{', '.join(there)}: exists; --force overwrites it")
        return 1
    try:
        for file, content in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
    except OSError as error:
        console.fail(f"{error.filename}: {error.strerror}")
        return 1
    if as_json:
        print(json.dumps({"files": [str(f) for f in files], "gaps": gaps}))
        return 0
    for file in files:
        print(file)
    console.say("info", f"{gaps} values to fill in, each marked {GAP}")
    return 0
