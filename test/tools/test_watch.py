# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The dashboard's pictures of messages that a running system sent (see record_watch.py)."""

import base64
import gzip
import io
import json
import math
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.serialization import deserialize_message
from rich.console import Console
from std_msgs.msg import String

from phyai_ros.control.states import State
from phyai_ros.engine.types import STAGES
from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
from phyai_ros.tools.watching.model import WatchModel
from phyai_ros.tools.watching.view import render

RECORDED = Path(__file__).parents[1] / "data" / "watch_messages.jsonl.gz"
KINDS = {
    "phyai/handoff_state": (HandoffState, WatchModel.on_state),
    "phyai/chunk": (ActionChunk, WatchModel.on_chunk),
    "phyai/request": (InferenceRequest, WatchModel.on_request),
    "instruction": (String, WatchModel.on_instruction),
    "/diagnostics": (DiagnosticArray, WatchModel.on_diagnostics),
}


@pytest.fixture(scope="module")
def messages():
    """(seconds, topic, message), oldest first."""
    found = []
    for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines():
        at, topic, words = json.loads(line)
        found.append((at, topic, deserialize_message(base64.b64decode(words), KINDS[topic][0])))
    return found


def feed(model, messages):
    for at, topic, message in messages:
        KINDS[topic][1](model, message, at)
    return messages[-1][0]


def text(model, now, width=80, unicode=True):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(render(model, now, width, unicode=unicode))
    return console.file.getvalue()


def test_it_shows_state_queue_delay_stages_ages_and_counters(messages):
    model = WatchModel()
    now = feed(model, messages)
    shown = text(model, now)
    newest = [m for _, topic, m in messages if topic == "phyai/handoff_state"][-1]
    assert shown.startswith(f" {State(newest.state).name}  {newest.reason}"[:60])
    assert '"reach the red block"' in shown
    assert f"row {newest.index}, {newest.remaining} left" in shown
    assert f"{newest.measured_delay} ticks measured, {newest.expected_delay} expected" in shown
    assert "a chunk lasts 16" in shown
    for stage in STAGES:
        row = next(line for line in shown.splitlines() if line.startswith(stage))
        assert "█" in row, stage
    for stream in ("scene", "wrist", "joints"):
        assert any(line.startswith(stream) for line in shown.splitlines()), stream
    assert "shoulder_pan_joint" not in shown
    assert f"ticks {newest.ticks}" in shown
    assert f"dropped {newest.dropped_chunks}" in shown
    assert model.tick_seconds == pytest.approx(0.05, abs=0.005)


def test_every_moment_can_be_shown_in_any_width_and_in_ascii(messages):
    model = WatchModel()
    now = 0.0
    for message in messages:
        now = feed(model, [message])
        for width in (40, 80, 200):
            lines = text(model, now, width).splitlines()
            assert max(len(line) for line in lines) <= width
        text(model, now, 80, unicode=False).encode("ascii")
    assert len(text(model, now, 80).splitlines()) < 36


def test_joints_are_one_stream_also_before_the_first_chunk(messages):
    model = WatchModel()
    feed(model, [m for m in messages if m[1] == "/diagnostics"])
    assert list(model.ages()) == ["scene", "wrist", "joints"]


def test_before_the_first_word_it_says_what_it_waits_for():
    assert "no word from handoff_node yet" in text(WatchModel(), 10.0)


def test_a_handoff_that_went_silent_does_not_look_alive(messages):
    model = WatchModel()
    now = feed(model, messages)
    assert "silent" not in text(model, now)
    late = text(model, now + 7.0)
    assert "handoff_node is silent for 7 s" in late
    assert "EXECUTING" not in late.splitlines()[0]
    assert "policy_node: silent for" in late


def test_the_worst_diagnostics_come_first_and_others_nodes_are_not_ours():
    model = WatchModel()
    message = DiagnosticArray()
    for name, level, package in (
        ("policy_node: a", DiagnosticStatus.WARN, "phyai_ros"),
        ("handoff_node: b", DiagnosticStatus.ERROR, "phyai_ros"),
        ("someone: c", DiagnosticStatus.ERROR, "other"),
        ("policy_node: d", DiagnosticStatus.OK, "phyai_ros"),
    ):
        message.status.append(
            DiagnosticStatus(name=name, level=level, message="m", hardware_id=package)
        )
    model.on_diagnostics(message, 1.0)
    assert [(level, name) for level, name, _ in model.troubles(1.0)] == [
        (2, "handoff_node: b"),
        (1, "policy_node: a"),
    ]


def test_the_history_shows_that_the_queue_ran_dry():
    model = WatchModel()
    for i in range(100):
        state = HandoffState(ticks=i, remaining=max(0, 20 - i))
        state.state = int(State.EXECUTING if i < 20 else State.STARVED)
        state.header.stamp.nanosec = i * 1_000_000
        model.on_state(state, 0.05 * i)
    history = text(model, 5.0).splitlines()
    assert "S" in next(line for line in history if line.startswith("state"))
    assert math.isclose(model.tick_seconds, 0.001)
