# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ROS messages <-> the numpy values that control and engine work with.

Values are carried, not judged: a zero stamp or a NaN reaches the aligner or the handoff, which name
the state that follows from it. Only what contradicts itself is refused here.

Stamps are whole nanoseconds wherever they are compared; a float of seconds (control's unit) holds
today's Unix time to 0.24 microseconds.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import Request
from phyai_ros.engine.types import STAGES
from phyai_ros.nodes import cdr, images
from phyai_ros.nodes.cdr import NANOSECONDS


class MessageError(ValueError):
    """A message that cannot be used; the text names the field, what was found and expected."""


@dataclass(frozen=True)
class ImageSample:
    """One camera image. stamp: seconds, ROS time. pixels: uint8 [height, width, 3], RGB.
    encoding: as the message names it."""

    stamp: float
    stamp_ns: int
    pixels: np.ndarray
    encoding: str


@dataclass(frozen=True)
class JointSample:
    """One publisher's joint state, by name.

    positions: rad or m, as sent. nonfinite: names whose position is NaN or infinite.
    """

    stamp: float
    stamp_ns: int
    positions: dict[str, float]
    nonfinite: tuple[str, ...] = ()


def stamp_to_ns(stamp: Any) -> int:
    """builtin_interfaces Time or Duration -> whole nanoseconds, exactly."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def ns_to_seconds(nanoseconds: int) -> float:
    """Nanoseconds -> float seconds, rounded once."""
    return nanoseconds / NANOSECONDS


def seconds_to_ns(seconds: float) -> int:
    """Float seconds -> nearest nanosecond; raises MessageError when not finite."""
    if not math.isfinite(seconds):
        raise MessageError(f"time {seconds} is not finite")
    whole = math.floor(seconds)
    return whole * NANOSECONDS + round((seconds - whole) * NANOSECONDS)


def set_time(target: Any, nanoseconds: int) -> Any:
    """Fill a builtin_interfaces Time or Duration in place and return it."""
    target.sec, target.nanosec = divmod(nanoseconds, NANOSECONDS)
    return target


def image_from_raw(buffer: bytes) -> ImageSample:
    """Serialised sensor_msgs/Image -> a view of its pixels. Raises ValueError's subclasses."""
    raw = cdr.read_image(buffer)
    layout = images.PixelLayout(raw.height, raw.width, raw.encoding, raw.step)
    pixels = images.rgb_view(layout, raw.data)
    return ImageSample(ns_to_seconds(raw.stamp_ns), raw.stamp_ns, pixels, raw.encoding)


def image_from_message(message: Any) -> ImageSample:
    """sensor_msgs/Image -> a view of its pixels. Raises ImageError."""
    layout = images.PixelLayout(message.height, message.width, message.encoding, message.step)
    stamp_ns = stamp_to_ns(message.header.stamp)
    pixels = images.rgb_view(layout, message.data)
    return ImageSample(ns_to_seconds(stamp_ns), stamp_ns, pixels, message.encoding)


def compressed_from_message(message: Any) -> ImageSample:
    """sensor_msgs/CompressedImage -> decoded pixels. Raises ImageError."""
    stamp_ns = stamp_to_ns(message.header.stamp)
    pixels = images.decode_compressed(message.format, message.data)
    return ImageSample(ns_to_seconds(stamp_ns), stamp_ns, pixels, message.format)


def compressed_from_raw(buffer: bytes) -> ImageSample:
    """Serialised sensor_msgs/CompressedImage -> decoded pixels. Raises ValueError's subclasses."""
    raw = cdr.read_compressed_image(buffer)
    pixels = images.decode_compressed(raw.format, raw.data)
    return ImageSample(ns_to_seconds(raw.stamp_ns), raw.stamp_ns, pixels, raw.format)


def joints_from_message(message: Any, prefix: str = "") -> JointSample:
    """sensor_msgs/JointState -> positions by name, in whatever order they came. prefix: put before
    every name (``Robot.joint_prefixes``).

    Any subset of joints may be present; a message with names and no positions (velocities or
    efforts alone) gives none. Raises MessageError when names and positions do not pair up.
    """
    stamp_ns = stamp_to_ns(message.header.stamp)
    names, values = [prefix + name for name in message.name], message.position
    if len(values) not in (0, len(names)):
        raise MessageError(f"{len(names)} joint names but {len(values)} positions")
    pairs = dict(zip(names, values, strict=False)) if len(values) else {}
    if len(values) and len(pairs) != len(names):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        raise MessageError(f"joint names appear twice: {', '.join(twice)}")
    nonfinite = tuple(name for name, value in pairs.items() if not math.isfinite(value))
    return JointSample(ns_to_seconds(stamp_ns), stamp_ns, pairs, nonfinite)


def fill_stages(target: Any, stages: Mapping[str, float]) -> Any:
    """Stage seconds -> StageTimes; a stage that was not measured is NaN."""
    for name in STAGES:
        setattr(target, name, float(stages.get(name, math.nan)))
    return target


def stages_from_message(message: Any) -> dict[str, float]:
    """StageTimes -> seconds of the stages that were measured."""
    values = {name: float(getattr(message, name)) for name in STAGES}
    return {name: value for name, value in values.items() if not math.isnan(value)}


def fill_chunk(target: Any, chunk: Chunk, stages: Mapping[str, float]) -> Any:
    """Chunk and stage seconds -> ActionChunk message.

    Raises MessageError unless positions is [rows, joints]."""
    positions = np.ascontiguousarray(chunk.positions, np.float64)
    if positions.ndim != 2 or positions.shape[1] != len(chunk.joint_names):
        raise MessageError(
            f"positions {positions.shape} are not [horizon, {len(chunk.joint_names)} joints]"
        )
    set_time(target.header.stamp, seconds_to_ns(chunk.stamp))
    target.request_id, target.epoch = chunk.request_id, chunk.epoch
    target.policy, target.instruction = chunk.policy, chunk.instruction
    target.joint_names = list(chunk.joint_names)
    set_time(target.step, seconds_to_ns(chunk.step))
    target.horizon = positions.shape[0]
    target.positions = positions.ravel().tolist()
    target.committed = chunk.committed
    target.sources = list(chunk.sources)
    time = type(target.header.stamp)
    target.source_stamps = [set_time(time(), seconds_to_ns(s)) for s in chunk.sources.values()]
    fill_stages(target.stages, stages)
    return target


def rows_from_flat(values: Any, columns: int, what: str) -> np.ndarray:
    """Row-major message array -> float64 [rows, columns]; raises MessageError when it does not
    divide into whole rows."""
    flat = np.array(values, np.float64)
    if columns == 0:
        if flat.size:
            raise MessageError(f"{what} holds {flat.size} values but names no joint")
        return flat.reshape(0, 0)
    if flat.size % columns:
        raise MessageError(f"{what} holds {flat.size} values, no multiple of {columns} joints")
    return flat.reshape(-1, columns)


def chunk_from_message(message: Any) -> Chunk:
    """ActionChunk message -> Chunk, shapes checked, values not: the guard judges NaN itself."""
    positions = rows_from_flat(message.positions, len(message.joint_names), "positions")
    if positions.shape[0] != message.horizon:
        raise MessageError(
            f"positions have {positions.shape[0]} rows, horizon is {message.horizon}"
        )
    return Chunk(
        stamp=ns_to_seconds(stamp_to_ns(message.header.stamp)),
        request_id=int(message.request_id),
        epoch=int(message.epoch),
        policy=message.policy,
        instruction=message.instruction,
        joint_names=tuple(message.joint_names),
        step=ns_to_seconds(stamp_to_ns(message.step)),
        positions=positions,
        committed=int(message.committed),
        sources={
            name: ns_to_seconds(stamp_to_ns(stamp))
            for name, stamp in zip(message.sources, message.source_stamps, strict=False)
        },
    )


def fill_request(target: Any, request: Request) -> Any:
    """Request -> InferenceRequest message; its tick stays at home."""
    set_time(target.header.stamp, seconds_to_ns(request.not_before))
    target.request_id, target.epoch = request.request_id, request.epoch
    target.expected_delay = request.expected_delay
    set_time(target.first_tick, seconds_to_ns(request.first_time))
    target.joint_names = list(request.joint_names)
    set_time(target.step, seconds_to_ns(request.step))
    target.leftover = array("d", np.ascontiguousarray(request.leftover, np.float64).tobytes())
    target.committed = request.committed
    target.instruction = request.instruction
    return target


def request_from_message(message: Any) -> Request:
    """InferenceRequest message -> Request (tick -1: only the sender knows it)."""
    return Request(
        request_id=int(message.request_id),
        epoch=int(message.epoch),
        tick=-1,
        not_before=ns_to_seconds(stamp_to_ns(message.header.stamp)),
        expected_delay=int(message.expected_delay),
        first_time=ns_to_seconds(stamp_to_ns(message.first_tick)),
        joint_names=tuple(message.joint_names),
        step=ns_to_seconds(stamp_to_ns(message.step)),
        leftover=rows_from_flat(message.leftover, len(message.joint_names), "leftover"),
        committed=int(message.committed),
        instruction=message.instruction,
    )
