# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros init-robot``: a robot YAML that fits a checkpoint, for the user to fill in."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from phyai_ros.control.words import counted
from phyai_ros.engine.types import PolicyError
from phyai_ros.robots.config_files import GAP, SUFFIXES
from phyai_ros.tools import console, policy_options
from phyai_ros.tools.describe import describe
from phyai_ros.tools.option_types import given_path
from phyai_ros.tools.robot_skeleton import skeleton

_EPILOG = f"""examples:
  phyai-ros init-robot --checkpoint lerobot/smolvla_base --out my_arm.yaml
  phyai-ros init-robot --checkpoint path/to/checkpoint --out config/my_arm.yaml

Writes the robot (--out) and beside it the model on it (my_arm_FAMILY.yaml). Fill in every {GAP},
then check and start it with the two commands that are printed.
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
    parser.add_argument(
        "--out",
        type=given_path,
        default=Path("my_robot.yaml"),
        metavar="FILE",
        help="the robot's file, named as the robot is (%(default)s); the model's goes beside it",
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    options = parser.parse_args(list(words))
    out: Path = options.out
    if out.suffix not in SUFFIXES or not re.fullmatch(r"[A-Za-z]\w*", out.stem):
        parser.error(
            "--out: expected a .yaml file named by letters, digits and _ (the robot's name), "
            f"found {str(out)!r}"
        )
    checkpoint = policy_options.checkpoint(options)
    try:
        found = describe(
            checkpoint,
            family=options.family,
            embodiment=options.embodiment,
            revision=options.revision,
        )
    except PolicyError as error:
        console.fail(policy_options.said(error))
        return 1
    spec = found.specs[0]
    if len(found.specs) > 1:
        tags = ", ".join(str(s.embodiment) for s in found.specs)
        console.fail(f"the checkpoint has several embodiments, name one with --embodiment: {tags}")
        return 1
    path = Path(checkpoint)
    given = str(path.resolve() if path.is_dir() else path)
    text = skeleton(spec, out.stem, spec.family, given)
    model = out.with_name(f"{out.stem}_{spec.family}{out.suffix}")
    if not _write({out: text.robot, model: text.model}, options.force):
        return 1
    following = [
        _check(options, out, model),
        shlex.join(["phyai-ros", "up", f"robot:={out}", f"model:={model}"]),
    ]
    if options.json:
        files = [str(out), str(model)]
        print(json.dumps({"files": files, "gaps": text.gaps, "next": following}))
        return 0
    print(f"wrote {out} and {model}: fill in the {counted(text.gaps, 'value')} marked {GAP}, then")
    for command in following:
        print(f"  {command}")
    return 0


def _check(options: argparse.Namespace, robot: Path, model: Path) -> str:
    words = ["phyai-ros", "check", "--checkpoint", str(options.checkpoint)]
    for name in ("family", "embodiment", "revision"):
        if getattr(options, name):
            words += [f"--{name}", str(getattr(options, name))]
    return shlex.join([*words, "--robot", str(robot), "--model", str(model)])


def _write(files: dict[Path, str], force: bool) -> bool:
    there = [str(f) for f in files if f.exists()]
    if there and not force:
        console.fail(f"{', '.join(there)}: exists; --force overwrites it")
        return False
    try:
        for file, content in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
    except OSError as error:
        console.fail(f"{error.filename}: {error.strerror}")
        return False
    return True
