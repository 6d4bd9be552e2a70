# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros soak``: the whole system under a seeded schedule of faults, and a verdict."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from phyai_ros import robots
from phyai_ros.tools import console, writing
from phyai_ros.tools.option_types import above_zero, given
from phyai_ros.tools.soaking import report
from phyai_ros.tools.soaking.run import Soak
from phyai_ros.tools.soaking.system import System

_EPILOG = """examples:
  phyai-ros soak
  phyai-ros soak --minutes 3 --seed 7
  phyai-ros soak --minutes 3 --patience 10      on a machine that others use too

Runs the simulated robot, the nodes as phyai-ros up runs them, the recorder and a watcher of its
own, and does to them one fault after the other: docs/soak.md lists them and what is demanded.
exit status: 0 passed, 1 failed, 2 wrong usage
"""


def main(words: Sequence[str]) -> int:
    options = _parse(words)
    try:
        robot = robots.load(options.robot)
    except robots.RobotError as error:
        console.fail(str(error))
        return 2
    out = Path(options.out).absolute()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.fail(f"--out {out}: no folder there: {writing.why(error)}")
        return 2
    system = System(
        robot,
        options.robot,
        options.model,
        options.seed,
        out,
        options.domain,
        sim_time=options.sim_time,
    )

    def progress(text: str) -> None:
        console.say("info", f"{len(soak.injected) + 1}: {text}")

    soak = Soak(system, options.seed, options.minutes, options.patience, progress)
    verdict = soak.run()
    about = {
        "minutes": options.minutes,
        "seed": options.seed,
        "patience": options.patience,
        "robot": options.robot,
        "model": options.model,
        "sim_time": options.sim_time,
        "seconds": round(soak.seconds, 1),
    }
    numbers = report.as_dict(verdict, system, about)
    report.show(verdict, system, console.console)
    files = {
        "soak.json": json.dumps(numbers, indent=2),
        "memory.csv": "\n".join(system.memory.rows()),
    }
    whole = [
        writing.write(out / name, partial(_write, f"{text}\n"), "--out DIR")
        for name, text in files.items()
    ]
    if all(whole):
        console.say("info", f"wrote {out / 'soak.json'}, journal, memory and logs beside it")
    return 0 if verdict.passed and all(whole) else 1


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phyai-ros soak",
        description="Run the whole system under faults and judge it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=above_zero, default=30.0, help="default: %(default)g")
    parser.add_argument("--seed", type=int, default=0, help="of the schedule (%(default)s)")
    parser.add_argument(
        "--patience",
        type=above_zero,
        default=1.0,
        help="factor on every bound of time, for a machine that is shared (%(default)g)",
    )
    parser.add_argument("--robot", default="ur10e", help="name or YAML file (%(default)s)")
    parser.add_argument("--model", default="gr00t", help="name or YAML file (%(default)s)")
    parser.add_argument(
        "--sim-time", action="store_true", help="time from /clock, and faults of that clock too"
    )
    parser.add_argument(
        "--out", type=given, default="runs/soak", metavar="DIR", help="default: %(default)s"
    )
    parser.add_argument("--domain", type=int, default=101, help="ROS domain (%(default)s)")
    options = parser.parse_args(words)
    if not 0 <= options.domain <= 232:
        parser.error(f"--domain: expected 0 to 232, found {options.domain}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
