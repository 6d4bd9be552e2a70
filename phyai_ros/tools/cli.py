# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros``: one tool, subcommands. The same as ``python -m phyai_ros.tools``."""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Sequence

from phyai_ros.nodes.entering import EnterError

COMMANDS = {
    "up": "run a policy on a robot, real or simulated",
    "doctor": "listen to a running system and say why nothing moves",
    "handoff": "hold the arm, let it go on, or reset the handoff",
    "watch": "show what a running system does, live in the terminal",
    "security": "write SROS 2 policies for the nodes",
    "info": "say what a checkpoint is",
    "check": "check a checkpoint: loading, robot, exactness, what changes the actions",
    "init-robot": "write a robot YAML that fits a checkpoint, to fill in",
    "record": "write a running system into a rosbag2 directory",
    "replay": "answer a bag's observations again and compare with what was",
    "play": "publish a bag",
    "study": "compare handoff methods under delay, in closed loop on a virtual clock",
    "roofline": "whether policy or robot sets the pace, and the slack to the next handoff",
    "soak": "run the whole system under faults and judge it",
    "bench": "print the numbers the project answers for",
}
_ROS = "ROS 2, which is not on this machine or not sourced (. scripts/env.sh)"
_ROS_PACKAGES = (
    "ament_index_python",
    "builtin_interfaces",
    "control_msgs",
    "diagnostic_msgs",
    "launch",
    "launch_ros",
    "rclpy",
    "rosgraph_msgs",
    "sensor_msgs",
    "std_msgs",
    "std_srvs",
    "trajectory_msgs",
)
OPTIONAL = {
    "matplotlib": "matplotlib, which is not installed: pip install matplotlib",
    "mujoco": "mujoco, the simulator, which is not installed: pip install mujoco",
    "rosbags": "rosbags, which is not installed: pip install rosbags",
    **dict.fromkeys(_ROS_PACKAGES, _ROS),
    "phyai_ros.msg": "this package's messages, which are not built or not sourced "
    "(make msgs; . scripts/env.sh)",
}
"""Packages that only some commands need -> what to say where they are missing."""
_EPILOG = """examples:
  phyai-ros up model:=gr00t robot:=ur10e sim:=true instruction:="reach the red block"
  phyai-ros up --show-args
  phyai-ros up --help
  phyai-ros info --checkpoint gr00t_ur10e_small
exit status: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C, 143 terminated
"""


def main(words: Sequence[str] | None = None, imported: Callable[[], object] = lambda: None) -> int:
    """Run one command; its exit status. A command is the module ``tools.<name>``:
    ``main(words) -> int``. It is imported only when asked for, so that --help is quick.
    imported: called between the two."""
    words = list(sys.argv[1:] if words is None else words)
    parser = argparse.ArgumentParser(
        prog="phyai-ros",
        description="Run robots from vision-language-action policies.",
        epilog="commands:\n"
        + "".join(f"  {name:<12}{text}\n" for name, text in COMMANDS.items())
        + "\n"
        + _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of those below")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.version:
        print(_version())
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    if options.command not in COMMANDS:
        close = difflib.get_close_matches(options.command, COMMANDS, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        text = f"there is no command {options.command!r}{hint}; there are: {', '.join(COMMANDS)}"
        print(f"phyai-ros: error: {text}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(f"phyai_ros.tools.{options.command.replace('-', '_')}")
        imported()
        return int(module.main(options.words))
    except ModuleNotFoundError as error:
        name = error.name or ""
        missing = OPTIONAL.get(name) or OPTIONAL.get(name.partition(".")[0])
        if missing is None:
            raise
        text = f"{options.command} needs {missing}"
        print(f"phyai-ros: error: {text}", file=sys.stderr)
        return 1
    except EnterError as error:
        print(f"phyai-ros: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def _version() -> str:
    try:
        return importlib.metadata.version("phyai_ros")
    except importlib.metadata.PackageNotFoundError:  # a colcon install has no Python metadata
        return "unknown (not installed by pip; see package.xml)"
