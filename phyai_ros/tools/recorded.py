# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A run's messages as a Recording's entries, live or from a bag. No rclpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phyai_ros.bags.reader import Bag
from phyai_ros.control.states import State
from phyai_ros.engine.types import STAGES
from phyai_ros.nodes import cdr, convert
from phyai_ros.tools.recording import ChunkSeen, Recording, Tick

STATE, CHUNK = "phyai_ros/msg/HandoffState", "phyai_ros/msg/ActionChunk"


def tick(m: Any, sent: float) -> Tick:
    """HandoffState, published at ``sent`` (s, wall clock)."""
    return Tick(
        convert.stamp_to_ns(m.header.stamp) / cdr.NANOSECONDS,
        sent,
        State(m.state),
        m.request_id,
        m.epoch,
        m.index,
        m.remaining,
        m.expected_delay,
        m.measured_delay,
        m.missed_ticks,
        m.starved_ticks,
        m.limited_ticks,
        m.late_chunks,
        m.dropped_chunks,
        m.action_age,
        m.tick_jitter,
        m.deliver,
        m.ticks + m.missed_ticks,
    )


def chunk(m: Any, sent: float) -> ChunkSeen:
    """ActionChunk, published at ``sent`` (s, the clock that stamps)."""
    stages = {name: getattr(m.stages, name) for name in STAGES if name != "deliver"}
    observed = convert.stamp_to_ns(m.header.stamp) / cdr.NANOSECONDS
    return ChunkSeen(sent, observed, m.request_id, m.epoch, m.horizon, stages)


def read(path: Path) -> Recording:
    """The handoff's ticks and the chunks of a bag. Raises BagError."""
    recording = Recording()
    with Bag(path) as bag:
        topics = [name for name, topic in bag.topics.items() if topic.type in (STATE, CHUNK)]
        for message in bag.messages(topics):
            sent = message.time_ns / cdr.NANOSECONDS
            decoded = bag.decode(message)
            if message.type == STATE:
                recording.ticks.append(tick(decoded, sent))
            else:
                recording.chunks.append(chunk(decoded, sent))
    return recording
