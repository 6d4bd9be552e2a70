# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros play``: publish a bag over DDS, on its own clock."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from phyai_ros.bags.play_order import chosen_topics, default_topics
from phyai_ros.bags.reader import Bag, BagError
from phyai_ros.control.words import counted
from phyai_ros.tools import console
from phyai_ros.tools.option_types import given, not_negative

_EPILOG = """examples:
  phyai-ros play bags/monday
  phyai-ros play bags/monday --rate 0.5 --topics '/camera/*' /joint_states

Publishes cameras, joint states and the instruction with the quality of service they were recorded
with, and the bag's time on /clock just before each message: run the nodes that listen with
use_sim_time:=true. Commands, chunks and requests are published only when --topics names them, as a
real arm that listens would move.
exit status: 0 played, 1 the bag turned out damaged while it was played, 2 wrong usage or a bag of
which nothing can be read, 130 Ctrl-C
"""


def main(words: Sequence[str]) -> int:
    options = _parse(words)
    try:
        bag = Bag(options.bag)
        topics = chosen_topics(bag, options.topics) if options.topics else default_topics(bag)
    except BagError as error:
        console.fail(str(error))
        return 2
    if bag.note:
        console.say("warning", f"{bag.path}: {bag.note}")
    if not topics:
        console.fail(f"{bag.path}: no sensor topic; there are: {', '.join(sorted(bag.topics))}")
        return 2
    stop = threading.Event()
    caught: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    from phyai_ros.tools.play_node import Player  # rclpy takes a moment

    try:
        player = Player(bag, topics, clock=not options.no_clock)
    except ValueError as error:
        console.fail(str(error))
        return 2
    try:
        count = player.play(options.rate, options.delay, options.duration, stop)
    except BagError as error:
        console.fail(str(error))
        return 1
    finally:
        player.close()
        bag.close()
    console.say("info", f"{counted(count, 'message')} on {', '.join(topics)}")
    return 128 + caught[0] if caught else 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phyai-ros play",
        description="Publish a bag on its own clock.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "bag", type=given, metavar="BAG", help="rosbag2 directory, .mcap or .db3 file"
    )
    parser.add_argument("--topics", nargs="+", metavar="TOPIC", help="only these; * matches any")
    parser.add_argument("--rate", type=_rate, default=1.0, metavar="X", help="times real time")
    parser.add_argument(
        "--delay",
        type=not_negative,
        default=1.0,
        metavar="S",
        help="for discovery, first (%(default)s)",
    )
    parser.add_argument(
        "--duration", type=not_negative, default=0.0, metavar="S", help="0: all of it"
    )
    parser.add_argument("--no-clock", action="store_true", help="do not publish /clock")
    return parser.parse_args(words)


def _rate(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 100.0:
        raise argparse.ArgumentTypeError(f"expected 0.01 to 100, found {text}")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
