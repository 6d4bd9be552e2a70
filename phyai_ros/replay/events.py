# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag's messages as the events that move a replay, on the bag's clock."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from phyai_ros.bags.reader import Bag, BagMessage
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import Request
from phyai_ros.nodes import convert, outlets
from phyai_ros.nodes.cdr import NANOSECONDS
from phyai_ros.nodes.convert import ImageSample, JointSample
from phyai_ros.nodes.frame_source import CameraTopic
from phyai_ros.nodes.instruction import clean_instruction
from phyai_ros.replay.bag_clock import BagClock
from phyai_ros.robots.robot import Robot


@dataclass(frozen=True)
class Event:
    """now: seconds, the bag's clock when it came. topic: as in the bag."""

    now: float
    topic: str


@dataclass(frozen=True)
class ImageCame(Event):
    camera: CameraTopic
    sample: ImageSample


@dataclass(frozen=True)
class JointsCame(Event):
    sample: JointSample


@dataclass(frozen=True)
class InstructionCame(Event):
    text: str


@dataclass(frozen=True)
class RequestCame(Event):
    request: Request


@dataclass(frozen=True)
class ChunkCame(Event):
    """wait: seconds from the oldest image to the assembly of its frame, as the policy says."""

    chunk: Chunk
    wait: float


@dataclass(frozen=True)
class TickCame(Event):
    """One HandoffState: what the live handoff did at a tick. stamp: the tick's own time. number:
    of the tick since the handoff began, missed ones counted."""

    stamp: float
    number: int
    state: int
    reason: str
    request_id: int
    epoch: int


@dataclass(frozen=True)
class CommandCame(Event):
    """output: its place in the robot's ``outputs``. rows: float64 [n, joints of that output], as
    nodes.outlets.Outlet takes them."""

    output: int
    rows: np.ndarray


@dataclass(frozen=True)
class ClockJumped(Event):
    """The bag's clock jumped by so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Refused(Event):
    """A message that cannot be used, and why."""

    kind: str
    text: str


class Timeline:
    """Events of one bag for one robot, in log order.

    cameras: those the policy uses. topics: role of this package -> the bag's topic.
    """

    def __init__(self, bag: Bag, robot: Robot, cameras: list[CameraTopic]) -> None:
        self.bag = bag
        self.cameras = {resolve(bag, camera.topic): camera for camera in cameras}
        self._prefixes = {resolve(bag, t): p for t, p in robot.joint_prefixes.items()}
        self.joints = {resolve(bag, topic): topic for topic in robot.joint_state_topics}
        self.ways = outlets.ways(robot)
        self._readers: Mapping[str, Any] = {
            **dict.fromkeys(self.cameras, self._image),
            **dict.fromkeys(self.joints, self._joints),
            resolve(bag, "/instruction"): self._instruction,
            resolve(bag, "/phyai/request"): self._request,
            resolve(bag, "/phyai/chunk"): self._chunk,
            resolve(bag, "/phyai/handoff_state"): self._tick,
        }
        for i, way in enumerate(self.ways):
            topic = resolve(bag, way.topic)
            if topic in bag.topics and bag.topics[topic].type == way.type:
                self._readers = {**self._readers, topic: partial(self._command, i)}
        self.clock = BagClock.of(bag, [*self.cameras, *self.joints])

    def missing(self) -> list[str]:
        """Topics that the policy needs and the bag does not have."""
        return [t for t in (*self.cameras, *self.joints) if t not in self.bag.topics]

    def has_live_run(self) -> bool:
        """Whether the bag holds chunks that a policy made while it was recorded."""
        topic = self.bag.topics.get(resolve(self.bag, "/phyai/chunk"))
        return topic is not None and topic.count > 0

    def events(self, images: bool = True) -> Iterator[Event]:
        """In log order. images: False leaves them out; they are the bulk."""
        wanted = {t for t in self._readers if t in self.bag.topics}
        if not images:
            wanted -= set(self.cameras)
        clock = self.clock.start()
        for message in self.bag.messages({*wanted, *self.clock.topics}):
            jump = clock.advance(message, self.bag)
            if jump:
                yield ClockJumped(clock.now, message.topic, jump)
            if message.topic not in wanted:
                continue
            try:
                yield self._readers[message.topic](message, clock.now)
            except ValueError as error:
                yield Refused(clock.now, message.topic, type(error).__name__, str(error))
            except (AttributeError, TypeError) as error:
                text = f"the bag defines {message.type} in another way: {error}"
                yield Refused(clock.now, message.topic, "other_definition", text)

    # -- one message -------------------------------------------------------------------------

    def _image(self, message: BagMessage, now: float) -> Event:
        camera = self.cameras[message.topic]
        compressed = message.type.endswith("/CompressedImage")
        read = convert.compressed_from_raw if compressed else convert.image_from_raw
        return ImageCame(now, message.topic, camera, read(message.data))

    def _joints(self, message: BagMessage, now: float) -> Event:
        prefix = self._prefixes.get(message.topic, "")
        sample = convert.joints_from_message(self.bag.decode(message), prefix)
        positions = {str(name): float(value) for name, value in sample.positions.items()}
        plain = JointSample(sample.stamp, sample.stamp_ns, positions, sample.nonfinite)
        return JointsCame(now, message.topic, plain)

    def _instruction(self, message: BagMessage, now: float) -> Event:
        text = clean_instruction(self.bag.decode(message).data)
        return InstructionCame(now, message.topic, text)

    def _request(self, message: BagMessage, now: float) -> Event:
        request = convert.request_from_message(self.bag.decode(message))
        return RequestCame(now, message.topic, request)

    def _chunk(self, message: BagMessage, now: float) -> Event:
        decoded = self.bag.decode(message)
        if not hasattr(decoded, "sources"):  # of a policy_node that did not tell yet
            decoded.sources, decoded.source_stamps = [], []
        chunk = convert.chunk_from_message(decoded)
        return ChunkCame(now, message.topic, chunk, float(decoded.stages.wait))

    def _tick(self, message: BagMessage, now: float) -> Event:
        m = self.bag.decode(message)
        stamp = convert.stamp_to_ns(m.header.stamp) / NANOSECONDS
        number = int(m.ticks) + int(m.missed_ticks)
        return TickCame(
            now,
            message.topic,
            stamp,
            number,
            int(m.state),
            m.reason,
            int(m.request_id),
            int(m.epoch),
        )

    def _command(self, output: int, message: BagMessage, now: float) -> Event:
        rows = self.ways[output].read(self.bag.decode(message))
        return CommandCame(now, message.topic, output, rows)


def resolve(bag: Bag, topic: str) -> str:
    """The bag's name of a topic: the same, or else the only one that ends with it (a namespace).
    A camera recorded compressed stands in for its raw topic, and the other way round."""
    plain = "/" + topic.lstrip("/")
    other = (
        posixpath.dirname(plain)
        if posixpath.basename(plain) == "compressed"
        else posixpath.join(plain, "compressed")
    )
    for name in (plain, other):
        if name in bag.topics:
            return name
        within = [t for t in bag.topics if t.endswith(name)]
        if len(within) == 1:
            return within[0]
    return plain
