# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros bench``: the numbers the project answers for, each by a program in benchmarks/.

Every program prints one JSON row, appends it to benchmarks/results/<name>.jsonl and exits with 1
when a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phyai_ros.tools import console

BENCHMARKS = {
    "ingest": "three cameras and joint states -> observation, against deserialise, copy and pair",
    "handoff": "control timer of handoff_node at 100 Hz beside policy_node and three cameras",
    "handoff_tick": "what one control tick costs in Python",
    "inference": "one whole request of the embedded policy on the CPU",
    "load": "a sharded checkpoint: seconds a GB, and host memory beyond the model itself",
    "startup": "phyai-ros up -> first command at the robot",
    "overlay": "what overlay:=true costs the control tick, with and without it in turns",
    "closed_loop": "embedded GR00T: 50 held-out episodes through the real nodes, in real time",
}
ON_GPU = {
    "engine": "a request at the published sizes: by stage, its roofs, whole; loading and capture",
    "engine_compiled": "one of engine's works by torch.compile of the reference path",
    "full_size": "the published sizes from sharded checkpoints: loading, memory, an answer",
}
"""Run when named, with their own options behind the name: they need a CUDA GPU."""
_META = ("benchmark", "when", "command", "commit", "device", "versions", "what", "wanted", "passed")


def main(words: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, all by default. Exit status: 0 every bound kept, 1 not."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] in ON_GPU:
        return through(words[0], words[1:])
    parser = argparse.ArgumentParser(
        prog="phyai-ros bench",
        description="Print the numbers the project answers for. They need a quiet machine.",
        epilog="benchmarks:\n"
        + "".join(f"  {name:<17}{text}\n" for name, text in BENCHMARKS.items())
        + "\non a CUDA GPU, one at a time, with options of their own (--help):\n"
        + "".join(f"  {name:<17}{text}\n" for name, text in ON_GPU.items())
        + "\nexamples:\n  phyai-ros bench ingest\n  phyai-ros bench --json > rows.jsonl\n"
        "  phyai-ros bench engine --work pi05_48,gr00t\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="one of those below; none: all")
    parser.add_argument("--json", action="store_true", help="print the JSON rows and nothing else")
    options = parser.parse_args(words)
    there = (*BENCHMARKS, *ON_GPU)
    unknown = [name for name in options.names if name not in there]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(there)}")
    alone = [name for name in options.names if name in ON_GPU]
    if alone:
        parser.error(f"{alone[0]} is run alone, as the first word: phyai-ros bench {alone[0]}")
    folder = find()
    if folder is None:
        return _fail("the folder benchmarks/ is part of the source tree; run this from there")
    kept = True
    for name in options.names or BENCHMARKS:
        entry, status, errors = run(folder / f"{name}.py")
        kept = kept and status == 0
        if entry is None:
            _fail(f"{name} ended with status {status} and no row:\n{errors}")
        elif options.json:
            print(json.dumps(entry), flush=True)
        else:
            print(render(entry), flush=True)
    return 0 if kept else 1


def find() -> Path | None:
    """benchmarks/ of the source tree this module belongs to, also behind a link, or of the current
    directory."""
    module = Path(__file__)
    for root in (module.parents[2], module.resolve().parents[2], Path.cwd()):
        if (root / "benchmarks" / "record.py").is_file():
            return root / "benchmarks"
    return None


def through(name: str, words: Sequence[str]) -> int:
    """A benchmark with its own options, which prints as it goes. -> its exit status."""
    folder = find()
    if folder is None:
        return _fail("the folder benchmarks/ is part of the source tree; run this from there")
    done = subprocess.run(
        [sys.executable, str(folder / f"{name}.py"), *words], cwd=folder.parent, check=False
    )
    return done.returncode


def run(program: Path) -> tuple[dict[str, Any] | None, int, str]:
    """One benchmark in its own process: its row, its exit status, what it said on stderr."""
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=program.parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    try:
        entry = json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        entry = None
    return entry, done.returncode, done.stderr.strip()


def render(entry: Mapping[str, Any]) -> str:
    """A row for people."""
    lines = [f"{entry['benchmark']}: {'kept' if entry['passed'] else 'NOT KEPT'}"]
    if "what" in entry:
        lines.append(f"  {entry['what']}")
    for key, value in entry.items():
        if key in _META:
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{name} {number}" for name, number in value.items())
        lines.append(f"  {key:<26}{value}")
    wanted = ", ".join(f"{name} {number}" for name, number in entry.get("wanted", {}).items())
    lines.append(f"  {'wanted':<26}{wanted}")
    device = entry["device"]
    lines.append(
        f"  {'on':<26}{device['cpu']}, {device['cores']} cores, load {device['load_before']}, "
        f"commit {entry['commit']}"
    )
    return "\n".join(lines)


def _fail(text: str) -> int:
    console.fail(text)
    return 1


if __name__ == "__main__":
    sys.exit(main())
