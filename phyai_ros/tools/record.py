# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros record``: a running system into a rosbag2 directory, from a process of its own."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from phyai_ros import robots
from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.bags.writer import STORAGES, BagWriter
from phyai_ros.control.words import counted
from phyai_ros.nodes.entering import EnterError
from phyai_ros.nodes.memory import one_arena
from phyai_ros.robots.parts import TOPIC
from phyai_ros.tools import console
from phyai_ros.tools.option_types import at_least, given, not_negative

if TYPE_CHECKING:
    from phyai_ros.tools.record_node import RecordNode

_OFTEN = 0.1
_ROOM_EVERY = 0.5
"""Seconds between two looks at the recorder, and at a disk that was full."""
_OWN = {"/diagnostics"}
"""The recorder speaks there itself: alone, it shows no robot."""
_EPILOG = """examples:
  phyai-ros record --robot ur10e
  phyai-ros record --robot my_arm.yaml --out bags/monday --duration 60
  phyai-ros record --robot ur10e --storage sqlite3 --topics /tf /rosout

Records the robot's cameras, joint states and commands, the instruction, requests, chunks, the
handoff's state, diagnostics, simulated time and episodes. Ctrl-C ends it. The bag can be read up
to its last second whatever ends this process: phyai-ros replay, phyai-ros play, ros2 bag.
exit status: 0 recorded, 1 nothing recorded or the disk failed, 2 wrong usage
"""


def main(words: Sequence[str]) -> int:
    options = _parse(words)
    try:
        robot = robots.load(options.robot)
    except robots.RobotError as error:
        console.fail(str(error))
        return 2
    one_arena()  # a thread a bag
    path = Path(options.out or f"runs/bags/{datetime.now():%Y-%m-%d_%H-%M-%S}")

    def open_bag(path: Path) -> BagRecorder:
        return BagRecorder(
            lambda: BagWriter(path, options.storage), options.queue << 20, options.reserve << 20
        )

    try:
        recorder = open_bag(path)
    except Exception as error:  # rosbags has its own kinds
        console.fail(f"--out {path}: {error}")
        return 2
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for told in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(told, on_signal)
    from phyai_ros.tools.record_node import RecordNode  # rclpy takes a moment

    try:
        node = RecordNode(robot, recorder, options.topics)
    except EnterError:
        recorder.close()
        shutil.rmtree(path, ignore_errors=True)  # it holds nothing, and stands in the way of one
        raise
    console.say("info", f"recording into {path}; Ctrl-C ends it")
    if node.refusal is not None:
        console.say(
            "info", f"on a loaded machine recording may delay control ticks: {node.refusal}"
        )
    end = time.monotonic() + (options.duration or float("inf"))
    first, status, number = path, 0, 1
    while True:
        _wait(node, recorder, options.split << 20, stop, end)
        if not _goes_on(recorder, options, stop, end):
            break
        if recorder.failure is not None:
            node.say()
            status = 1
        number += 1
        following = first.with_name(f"{first.name}_{number}")
        again = _when_there_is_room(following, open_bag, options.reserve << 20, stop, end)
        if again is None:
            break
        node.write_into(again)
        recorder.close()
        _report(path, recorder, [])
        path, recorder = following, again
        console.say("info", f"recording goes on in {path}")
    node.close()
    recorder.close()
    return _report(path, recorder, node.absent(), before=number > 1) or status


def _goes_on(
    recorder: BagRecorder, options: argparse.Namespace, stop: threading.Event, end: float
) -> bool:
    """Whether there is another bag after this one."""
    if stop.is_set() or time.monotonic() >= end:
        return False
    return bool(options.keep_going) if recorder.failure is not None else recorder.running


def _wait(
    node: RecordNode, recorder: BagRecorder, split: int, stop: threading.Event, end: float
) -> None:
    """Until the recorder ends by itself, has ``split`` bytes (0: any), or is told to end."""
    told: set[str] = set()
    while recorder.running and not stop.is_set() and time.monotonic() < end:
        if split and recorder.bytes > split:
            return
        stop.wait(min(_OFTEN, max(0.0, end - time.monotonic())))
        for notice in node.notices():
            if notice not in told:
                told.add(notice)
                console.say("warning", notice)


def _when_there_is_room(
    path: Path,
    open_bag: Callable[[Path], BagRecorder],
    reserve: int,
    stop: threading.Event,
    end: float,
) -> BagRecorder | None:
    """The next bag, as soon as the disk takes it; None when the recording shall end before."""
    while not stop.is_set() and time.monotonic() < end:
        try:
            if shutil.disk_usage(path.parent).free >= 2 * reserve:
                return open_bag(path)
        except Exception:  # the disk again, in rosbags' own kinds
            shutil.rmtree(path, ignore_errors=True)
        stop.wait(_ROOM_EVERY)
    return None


def _report(path: Path, recorder: BagRecorder, absent: list[str], *, before: bool = False) -> int:
    """before: whether other bags came before this one, which may then be empty."""
    counts = {topic: count for topic, count in sorted(recorder.counts.items()) if count}
    for topic, count in counts.items():
        lost = recorder.dropped[topic]
        print(f"{topic}: {count}" + (f" ({lost} dropped: the disk was too slow)" if lost else ""))
    print(f"{path}: {counted(sum(counts.values()), 'message')}, {recorder.bytes / 1e6:.1f} MB")
    if absent:
        console.say("warning", f"nobody published {', '.join(absent)}")
    if recorder.failure is not None:
        console.fail(f"recording ended early: {recorder.failure}")
        return 1
    if not counts.keys() - _OWN and not before:
        console.fail("nothing was recorded: is the robot running, in this ROS_DOMAIN_ID?")
        return 1
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phyai-ros record",
        description="Record a running system into a rosbag2 directory.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--robot", default="ur10e", metavar="YAML", help="name or file (%(default)s)"
    )
    parser.add_argument(
        "--out",
        type=given,
        metavar="DIR",
        help="must not exist; default: runs/bags/<date and time>",
    )
    parser.add_argument("--storage", choices=sorted(STORAGES), default="mcap")
    parser.add_argument("--topics", nargs="+", default=[], metavar="TOPIC", help="these as well")
    parser.add_argument(
        "--duration", type=not_negative, default=0.0, metavar="S", help="0: no limit"
    )
    parser.add_argument(
        "--queue",
        type=at_least(1),
        default=256,
        metavar="MB",
        help="waiting for the disk (%(default)s)",
    )
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="when the disk fails, wait for room and go on in DIR_2, DIR_3, ...",
    )
    parser.add_argument(
        "--split",
        type=at_least(0),
        default=0,
        metavar="MB",
        help="go on in DIR_2, DIR_3, ... after so much each; 0: never",
    )
    parser.add_argument(
        "--reserve",
        type=at_least(0),
        default=64,
        metavar="MB",
        help="end when less is free (%(default)s)",
    )
    options = parser.parse_args(words)
    for topic in options.topics:
        if not TOPIC.fullmatch(topic):
            parser.error(f"--topics: expected names as /tf, found {topic!r}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
