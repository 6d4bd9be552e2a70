# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ``phyai-ros study`` may be asked."""

from __future__ import annotations

import argparse

from phyai_ros.control import methods
from phyai_ros.sim import cells, world
from phyai_ros.study.design import FIRST_SEED
from phyai_ros.tools.option_types import above_zero, at_least, given, given_path

MODEL = "gr00t"
"""Unless another one comes with the robot."""
_DESCRIPTION = """Runs the policy in the simulated cell with the real handoff, guard and aligner on
a virtual clock, once for each combination of handoff method, delay and execution horizon, on the
same seeded episodes. Two runs with the same arguments write the same study.json."""
_EPILOG = """examples:
  phyai-ros study --model gr00t --delay-ms 0,100,200,400 --handoff all --episodes 20 --jobs 2
  phyai-ros study --model gr00t --delay-ms 200,100x5@10 --handoff replace,rtc_identity
  phyai-ros study --model gr00t --delay-from runs/today/report.json --task follow --speed 0.04
  phyai-ros study --checkpoint expert --delay-ms 0,400 --task follow
  phyai-ros study --robot aloha --model act --delay-ms 100 --horizon 20
Ctrl-C keeps what is done; the same command with the same --out goes on from there.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="phyai-ros study",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--robot", default="ur10e", help="a name in config/robots or a YAML file")
    add(
        "--model",
        help=f"a name in config/models or a YAML file; default: {MODEL}, or what comes with "
        "the robot",
    )
    add(
        "--checkpoint",
        default="",
        help="name, directory or hub id; default: the model's own; "
        "'expert': the scripted expert, which knows where the block is",
    )
    add(
        "--embodiment", type=given, help="the checkpoint's embodiment tag; default: the model's own"
    )
    add(
        "--handoff",
        default="all",
        help="methods, comma-separated, or all that the policy can do: " + ", ".join(methods.NAMES),
    )
    add(
        "--delay-ms",
        default="",
        help="of an answer, comma-separated; 100x5@10: 100 ms, five times "
        "as long every tenth answer; default 0,100,200,400",
    )
    add(
        "--delay-from",
        action="append",
        default=[],
        type=given_path,
        metavar="FILE",
        help="delays as measured: a run's report.json, or seconds in a JSON or text file",
    )
    add("--horizon", default="8", help="rows executed of a chunk, comma-separated")
    add("--task", default="reach", choices=cells.TASKS)
    add(
        "--speed",
        type=float,
        default=None,
        help=f"of the block, m/s; default: 0, for follow {world.FOLLOW_SPEED}",
    )
    add("--reversing", action="store_true", help="the conveyor turns round at random")
    add("--episodes", type=at_least(1), default=20, help="of each combination")
    add("--seed", type=at_least(0), default=FIRST_SEED, help="of the first episode")
    add(
        "--image-age-ms",
        type=float,
        default=0.0,
        help="how long before a tick its pictures are taken; a robot's cameras keep no tick",
    )
    add("--time-limit", type=above_zero, default=10.0, help="of an episode, s")
    add("--jobs", type=at_least(1), default=1, help="processes")
    add("--out", default="", help="folder; default: runs/study_<date and time>")
    return made
