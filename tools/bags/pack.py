# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Cuts some seconds out of a recorded bag and packs them small, without losing a bit.

    phyai-ros record --robot ur10e --out BAG          (beside phyai-ros up sim:=true ...)
    python tools/bags/pack.py BAG SMALL --start 2 --duration 4

Images become PNG on ``<topic>/compressed``; the rest stays as it is, packed by MCAP's own zstd.
What was said before the cut and lasts (instructions) is kept at its beginning.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np
from compose import COMPRESSED, IMAGE, Composer

from phyai_ros.bags.reader import Bag, BagMessage
from phyai_ros.bags.writer import BagWriter
from phyai_ros.nodes import cdr, convert

LASTING = ("/instruction",)
LEFT_OUT = ("/diagnostics", "/sim/episode", "/rosout")


def pack(bag: Bag, out: Path, start: float, duration: float) -> int:
    """start: seconds after the first chunk's log time less one second. -> messages written."""
    first = next(bag.messages({"/phyai/chunk"})).time_ns + round((start - 1.0) * 1e9)
    last = first + round(duration * 1e9)
    composer = Composer(BagWriter(out, compress=True))
    lasting: dict[str, BagMessage] = {}
    count = 0
    for message in bag.messages():
        if message.topic in LEFT_OUT or message.time_ns >= last:
            continue
        if message.time_ns < first:
            if message.topic in LASTING:
                lasting[message.topic] = message
            continue
        for before in lasting.values():
            _copy(bag, composer, before, first)
            count += 1
        lasting = {}
        if message.type == IMAGE:
            _png(bag, composer, message)
        else:
            _copy(bag, composer, message, message.time_ns)
        count += 1
    composer.writer.close()
    return count


def _copy(bag: Bag, composer: Composer, message: BagMessage, time_ns: int) -> None:
    if not composer.writer.has(message.topic):
        composer.writer.add_topic(message.topic, message.type, bag.topics[message.topic].qos)
    composer.writer.write(message.topic, time_ns, message.data)


def _png(bag: Bag, composer: Composer, message: BagMessage) -> None:
    raw = cdr.read_image(message.data)
    pixels = convert.image_from_raw(message.data).pixels
    done, data = cv2.imencode(".png", pixels[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    assert done
    topic = message.topic + "/compressed"
    if not composer.writer.has(topic):
        composer.writer.add_topic(topic, COMPRESSED, bag.topics[message.topic].qos)
    packed = composer.compressed(raw.stamp_ns, "rgb8; png compressed bgr8", np.ravel(data))
    composer.put(topic, COMPRESSED, message.time_ns, packed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bag", type=Path)
    parser.add_argument("out", type=Path, help="folder to write; must not exist")
    parser.add_argument(
        "--start", type=float, default=0.0, help="s from 1 s before its first chunk"
    )
    parser.add_argument("--duration", type=float, default=4.0, help="s")
    options = parser.parse_args()
    with Bag(options.bag) as bag:
        count = pack(bag, options.out, options.start, options.duration)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    print(f"{options.out}: {count} messages, {size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
