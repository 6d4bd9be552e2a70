# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A crash that was recovered from is in the report, on the picture and in the exit status."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from phyai_ros.control.motion import STOPPED_SHORT
from phyai_ros.control.states import State
from phyai_ros.control.told import jumped
from phyai_ros.control.tracking import OFF_COURSE
from phyai_ros.msg import HandoffState
from phyai_ros.nodes import outlets
from phyai_ros.tools import incidents, monitor, plots, report
from phyai_ros.tools.recording import Crash, Recording, Tick


def tick(time, state=State.EXECUTING, **changes):
    """Simulated time from 0 on; the wall clock is 1000 s ahead of it."""
    values = {
        "request_id": 1, "epoch": 1, "index": 0, "remaining": 5, "expected_delay": 2,
        "measured_delay": 2, "missed_ticks": 0, "starved_ticks": 0, "limited_ticks": 0,
        "late_chunks": 0, "dropped_chunks": 0, "action_age": 0.1, "jitter": 0.0,
        "deliver": math.nan,
    }  # fmt: skip
    return Tick(time, time + 1000.0, state, **{**values, **changes})


def run_with_pause(begin=4.0, end=7.0, length=40.0):
    """20 Hz, HOLDING from begin to end."""
    times = np.arange(0.0, length, 0.05)
    held = [begin <= t < end for t in times]
    ticks = [
        tick(float(t), State.HOLDING if h else State.EXECUTING)
        for t, h in zip(times, held, strict=True)
    ]
    commands = [
        (t.sent - 0.001, np.array([[math.sin(t.time)]]))
        for t in ticks
        if t.state is State.EXECUTING
    ]
    return Recording(("a",), ticks, [commands], ways=(outlets.forward("/commands", "a"),))


def test_a_crash_is_named_with_its_time_and_the_pause_after_it():
    recording = run_with_pause()
    recording.crashes.append(Crash("policy_node", 1003.5, "was killed by SIGKILL"))
    (line,) = incidents.problems(recording)
    assert line.startswith("policy_node was killed by SIGKILL at 3.5 s of the run and was started")
    assert "no chunk drove the arm for 3." in line
    (restart,) = report.build(recording, {})["restarts"]
    assert restart["process"] == "policy_node"
    assert restart["time"] == pytest.approx(3.5)
    assert restart["not_driven"] == pytest.approx(3.0, abs=0.11)


def test_a_crash_that_the_queue_bridged_and_one_that_was_the_end():
    recording = run_with_pause()
    bridged, last = Crash("policy_node", 1020.0, "x"), Crash("handoff_node", 1039.99, "x")
    recording.crashes += [bridged, last]
    assert incidents.not_driven(recording, bridged) == 0.0
    assert incidents.not_driven(recording, last) is None
    first, second = incidents.problems(recording)
    assert first.endswith("the arm was driven all the while")
    assert second.endswith("no chunk drove the arm after it")


def test_a_pause_to_the_end_of_the_run_counts():
    """The queue lasts on for half a second, then nothing comes any more."""
    recording = run_with_pause(20.5, 40.0)
    crash = Crash("policy_node", 1020.0, "x")
    assert incidents.not_driven(recording, crash) == pytest.approx(19.5, abs=0.11)


def test_the_picture_shows_the_crash_wherever_it_is(tmp_path, monkeypatch):
    recording = run_with_pause(31.0, 33.0)
    assert incidents.window(recording, 0.0, 16.0) == (0.0, 16.0)
    recording.crashes.append(Crash("policy_node", 1030.5, "was killed by SIGKILL"))
    start, end = incidents.window(recording, 0.0, 16.0)
    assert start < 30.5 < end
    assert end - start == pytest.approx(16.0)
    texts = []
    monkeypatch.setattr(
        plots.plt.Figure, "savefig", lambda figure, *_, **__: texts.extend(all_texts(figure))
    )
    plots.timeline(recording, {"model": "gr00t"}, tmp_path / "timeline.png")
    assert any("policy_node crashed, restarted" in text for text in texts)
    assert any("restarts: 1 in the whole run" in text and "of 40 s" in text for text in texts)


def test_the_headline_says_how_much_lies_outside_the_picture(tmp_path, monkeypatch):
    recording = run_with_pause()
    for starved, missed in ((1, 0), (2, 0), (2, 1)):
        time = 40.0 + 20.0 * (starved + missed)
        recording.ticks.append(tick(time, starved_ticks=starved, missed_ticks=missed))
    assert [what for _, what in incidents.events(recording)] == ["starved", "starved", "missed"]
    texts = []
    monkeypatch.setattr(
        plots.plt.Figure, "savefig", lambda figure, *_, **__: texts.extend(all_texts(figure))
    )
    plots.timeline(recording, {}, tmp_path / "timeline.png")
    (headline,) = [text for text in texts if "shown:" in text]
    assert "2 starved ticks, 1 missed in the whole run" in headline
    assert headline.endswith("2 of these events outside")


def stalled(begin=4.0, end=5.5):
    """20 Hz; the process stands from begin to end, then waits for a chunk for half a second."""
    recording = Recording(("a",))
    missed = round((end - begin) / 0.05)
    for time in np.arange(0.0, 10.0, 0.05):
        if not begin < time < end:
            state = State.WAITING if end <= time < end + 0.5 else State.EXECUTING
            late = missed if time >= end else 0
            recording.ticks.append(tick(float(time), state, missed_ticks=late))
    return recording


def test_no_execution_is_shown_where_no_tick_was(tmp_path, monkeypatch):
    """A process that stood for 1.5 s was painted as executing all the while."""
    recording = stalled()
    found = plots.spans(plots.states(recording))
    assert [state for _, _, state in found] == [
        State.EXECUTING, None, State.WAITING, State.EXECUTING,
    ]  # fmt: skip
    assert found[1][:2] == pytest.approx((4.05, 5.5), abs=0.06)
    recording.ticks = [t for t in recording.ticks if not 7.0 < t.time < 7.1]
    assert plots.spans(plots.states(recording)) == found, "what only this listener missed"
    names, rows = [], []
    monkeypatch.setattr(
        plots.plt.Figure,
        "savefig",
        lambda figure, *_, **__: (
            names.extend(t.get_text() for t in figure.axes[2].get_legend().get_texts()),
            rows.extend(figure.axes[4].lines[0].get_xydata()),
        ),
    )
    acting = [t for t in recording.ticks if t.state is State.EXECUTING]
    recording.commands = [[(t.sent - 0.001, np.zeros((1, 1))) for t in acting]]
    recording.ways = (outlets.forward("/commands", "a"),)
    plots.timeline(recording, {}, tmp_path / "timeline.png")
    assert names == ["waiting", "executing", "no tick"]
    first = rows[0][0]
    assert {left for x, left in rows if 4.06 < x - first < 5.4} <= {0.0}
    assert any(left == 0.0 for x, left in rows if 4.0 < x - first < 4.2), "no step to its end"


OFF = "wrist is 0.783 rad from all commands of the last 8 ticks: " + OFF_COURSE
MASTERS = "/other sends commands on /commands too: two masters make the arm jump"
STOOD = jumped(1.489, by_steady=False)


@pytest.mark.parametrize(
    ("state", "reason", "way", "people"),
    [
        (State.HOLDING, OFF, "`phyai-ros handoff resume`", True),
        (State.FAULT, MASTERS, "`phyai-ros handoff reset`", True),
        (State.WAITING, STOOD, "it goes on with a fresh chunk", False),
        (State.HOLDING, f"no chunk; wrist {STOPPED_SHORT}", "it goes on with a fresh chunk", False),
    ],
)
def test_a_standstill_that_was_not_asked_for_is_a_problem_with_its_way_out(
    state, reason, way, people
):
    recording = stalled()
    incidents.stands(recording, 1000.0, State.EXECUTING, "executing")
    incidents.stands(recording, 1004.0, state, f"{reason}; requests are unanswered")
    incidents.stands(recording, 1004.5, state, f"{reason}; no publisher on /phyai/chunk")
    assert incidents.left_standing(recording) is people
    (line,) = incidents.problems(recording)
    assert line.startswith(f"{state.name}: {reason} (at 4.0 s of the run, for 6.0 s")
    assert ", to the end of the run); " + way in line
    incidents.stands(recording, 1006.0, State.EXECUTING, "executing")
    assert not incidents.left_standing(recording)
    (line,) = incidents.problems(recording)
    assert "(at 4.0 s of the run, for 2.0 s); " in line
    incidents.stands(recording, 1008.0, state, reason.replace("0.783", "0.9"))
    incidents.stands(recording, 1009.0, State.EXECUTING, "executing")
    (line,) = incidents.problems(recording)
    assert "(2 times, first at 4.0 s of the run, for 3.0 s in all); " in line
    recording.shared = ("/commands",)
    (line,) = incidents.problems(recording)
    assert "(said by one of the handoffs that speak here); " in line, "it was said 162 times"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State.HOLDING, "held by service"),
        (State.HOLDING, "new instruction: waiting for its first chunk"),
        (State.WAITING, "no chunk yet"),
        (State.STARVED, "the chunk ran out before the next one came"),
    ],
)
def test_one_that_was_asked_for_or_is_counted_is_none(state, reason):
    recording = stalled()
    incidents.stands(recording, 1004.0, state, reason)
    assert incidents.problems(recording) == []


@pytest.mark.parametrize(("state", "status"), [(HandoffState.FAULT, 1), (HandoffState.WAITING, 0)])
def test_a_run_that_leaves_the_arm_in_a_fault_is_not_clean(tmp_path, monkeypatch, state, status):
    monkeypatch.setenv("ROS_DOMAIN_ID", "86")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")

    def hears(watch):
        message = HandoffState(state=state, reason=MASTERS)
        watch.recorder._on_state(message, {"source_timestamp": 10**9})

    monkeypatch.setattr(monitor._Watch, "_start", hears)
    what = monitor.Run(tmp_path, sim=False, duration=0.01)
    console = Console(file=io.StringIO(), width=200)
    assert monitor.run(what, console=console) == status
    assert ("`phyai-ros handoff reset`" in console.file.getvalue()) is bool(status)


def test_nothing_of_an_earlier_run_stays_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "86")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    for name in (*monitor.WRITTEN, "mine.txt"):
        (tmp_path / name).write_text("old")
    what = monitor.Run(tmp_path, sim=False, startup=0.3)
    crash = Crash("policy_node", 5.0, "was killed by SIGKILL")
    status = monitor.run(
        what, crashes=lambda: [crash], console=Console(file=io.StringIO(), width=200)
    )
    assert status == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", "report.json"]
    text = (tmp_path / "report.json").read_text()
    assert "no command in 0.3 s" in text
    assert "policy_node was killed by SIGKILL and was started again" in text


def all_texts(figure):
    return [t.get_text() for t in figure.texts] + [
        t.get_text() for axis in figure.axes for t in axis.texts
    ]
