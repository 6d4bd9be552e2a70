# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a soak proves, from made-up runs."""

import pytest

from phyai_ros.tools.soaking import verdict
from phyai_ros.tools.soaking.memory import LEAST, MemoryLog
from phyai_ros.tools.soaking.schedule import Fault
from phyai_ros.tools.soaking.timeline import REPEATED, Timeline
from phyai_ros.tools.soaking.verdict import Bag, Injected, Memory, judge, outcome

EXECUTING, HOLDING = 2, 4
DROPPED = Fault("camera_dropped", 2.0, {"camera": "scene"})
HOGS = Fault("cpu_hogs", 3.0)
GOOD = "policy_node: camera scene: no message for 0.6 s"


def timeline(*, gone=(), said=(), until=130.0):
    """An arm that is driven from 100 on, fresh chunks every REPEATED, but for some stretches."""
    line = Timeline(counts={"commands": 100})
    steps = round((until - 100.0) / REPEATED)
    for step in range(steps):
        at = 100.0 + step * REPEATED
        away = any(a <= at < b for a, b in gone)
        line.add(
            {
                "event": "state",
                "time": at,
                "state": HOLDING if away else EXECUTING,
                "fresh": not away,
            }
        )
    for at, level, text in said:
        line.add({"event": "said", "time": at, "level": level, "text": text})
    return line


def judged(line, *injected, memory=(), bags=(), orphans=(), broken=(), patience=1.0):
    return judge(injected, line, memory, bags, orphans, broken, patience)


def test_named_and_recovered_in_time_is_a_pass():
    line = timeline(gone=[(110.5, 113.0)], said=[(110.6, 2, GOOD)])
    result = outcome(Injected(DROPPED, 110.0, 112.0), line)
    assert result.problems == ()
    assert result.named == pytest.approx(0.6)
    assert result.recovered == pytest.approx(1.0, abs=REPEATED)
    assert judged(line, Injected(DROPPED, 110.0, 112.0)).passed


@pytest.mark.parametrize(
    ("said", "hard"),
    [
        ([], True),
        ([(110.6, 2, GOOD.replace("scene", "wrist"))], True),
        ([(110.6, 0, GOOD)], True),
        ([(109.0, 2, GOOD)], True),
        ([(111.2, 2, GOOD)], False),
    ],
    ids=["nothing", "another camera", "no warning", "before it began", "late"],
)
def test_a_fault_must_be_named_by_a_warning_of_its_own(said, hard):
    result = judged(timeline(gone=[(110.5, 113.0)], said=said), Injected(DROPPED, 110.0, 112.0))
    assert (len(result.problems), len(result.late)) == ((1, 0) if hard else (0, 1))
    assert not result.passed


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("policy_node: instruction: refused: instruction is empty", True),
        ("handoff_node: handoff: HOLDING: new instruction: waiting for its first chunk", False),
    ],
)
def test_a_storm_is_named_by_what_was_refused_and_not_by_what_its_sensible_ones_did(text, named):
    storm = Injected(Fault("instructions_storm", 2.5, {"seed": 1}), 110.0, 112.5)
    result = outcome(storm, timeline(gone=[(110.1, 112.6)], said=[(110.2, 1, text)]))
    assert (result.named is not None, result.problems == ()) == (named, named)


def test_patience_stretches_every_bound_of_time_and_no_other():
    late = timeline(gone=[(110.5, 120.0)], said=[(113.0, 2, GOOD)])
    injected = Injected(DROPPED, 110.0, 112.0)
    assert len(judged(late, injected).late) == 2
    assert judged(late, injected, patience=10.0).passed
    never = timeline(gone=[(110.5, 200.0)], said=[(113.0, 2, GOOD)])
    assert judged(never, injected, patience=10.0).problems == [
        "camera dropped (scene): no recovery"
    ]


def test_a_load_that_nobody_feels_needs_no_name_and_one_that_stops_the_arm_does():
    injected = Injected(HOGS, 110.0, 113.0)
    assert judged(timeline(), injected).passed
    assert not judged(timeline(gone=[(111.0, 112.0)]), injected).passed


@pytest.mark.parametrize(("far", "passes"), [(0.02, True), (0.5, False)])
def test_frozen_pixels_need_a_name_when_the_arm_moved(far, passes):
    line = timeline()
    for step in range(150):
        at = 100.0 + 0.2 * step
        position = far * min(1.0, max(0.0, (at - 110.0) / 2.0))
        line.add({"event": "pose", "time": at, "positions": [0.3, position]})
    fault = Fault("camera_frozen", 4.0, {"camera": "scene", "what": "pixels"})
    assert judged(line, Injected(fault, 110.0, 114.0)).passed is passes


def test_silence_is_no_driving():
    line = timeline(until=110.0)
    assert line.acted_throughout(101.0, 109.0)
    assert not line.acted_throughout(101.0, 112.0)
    assert not Timeline().acted_throughout(1.0, 2.0)


def test_events_that_come_out_of_order_are_sorted():
    line = Timeline()
    for at, state in ((3.0, EXECUTING), (1.0, HOLDING), (2.0, HOLDING)):
        line.add({"event": "state", "time": at, "state": state, "fresh": True})
    assert [s.time for s in line.states] == [1.0, 2.0, 3.0]
    assert line.resumed(1.5) == 3.0


def test_everything_else_that_fails():
    line = timeline()
    line.add({"event": "violation", "time": 105.0, "text": "elbow too fast"})
    line.add({"event": "not_finite", "time": 105.0, "text": "chunk 3"})
    result = judged(
        line,
        memory=[
            Memory("up", 600.0, 1000.0, 1011.0),
            Memory("policy_node", 600.0, 1000.0, 1009.0),
            Memory("record", 300.0, 1000.0, 1100.0),
        ],
        bags=[Bag("bag1", 10, 0.2), Bag("bag2", 10, 1.7), Bag("bag3", 0, 0.0, "damaged")],
        orphans=["sim_node (7)"],
        broken=["up ended with status 1"],
    )
    found = "\n".join(result.problems)
    for text in (
        "too fast",
        "chunk 3",
        "up: memory grew by 1.10 %",
        "bag3: damaged",
        "sim_node (7)",
    ):
        assert text in found
    assert "policy_node" not in found
    assert "record" not in found, "too young to tell"
    assert "bag1" not in found
    assert result.late == ["bag2: its last 1.7 s are missing"]


def test_a_run_without_a_command_proves_nothing():
    assert judged(Timeline()).problems == ["no command was ever sent"]


def test_memory_is_judged_over_the_longest_life_of_each_process():
    log = MemoryLog()
    for second in range(round(LEAST) + 60):
        log.add("policy_node", 1, float(second), 1000 + second)
    for second in range(round(LEAST) - 1):
        log.add("handoff_node", 2, float(second), 1000)
    (found,) = log.lives()
    assert found.process == "policy_node"
    assert found.growth > verdict.GROWTH


def test_memory_that_comes_and_goes_within_what_a_round_of_faults_costs_is_no_growth():
    log = MemoryLog()
    for second in range(900):
        costs = 50 if 200 <= second < 320 or second > 700 else 0  # one kind of fault
        log.add("record", 1, float(second), 1000 + costs)
        log.add("up", 2, float(second), 1000 + costs + second // 20)
    growth = {life.process: life.growth for life in log.lives()}
    assert growth["record"] == 0
    assert growth["up"] > verdict.GROWTH


def test_first_commands_that_nobody_could_judge_are_no_pass():
    line = timeline()
    assert judged(line).passed
    line.counts["unplaced"] = 1
    assert "no position was heard" in judged(line).problems[0]
