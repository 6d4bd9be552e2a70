# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The schedule of a soak: seeded, whole, and every fault one that can be done."""

import itertools
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.nodes.instruction import clean_instruction
from phyai_ros.tools.soaking import inject, schedule
from phyai_ros.tools.soaking.faults import instructions, tampers
from phyai_ros.tools.soaking.schedule import BY_NAME, KINDS, Robot, round_of

ROBOT = Robot(("scene", "wrist"), ("elbow", "finger"), clock=True)
SEEDS = st.integers(0, 2**31)


@given(SEEDS, st.integers(0, 50), st.booleans())
def test_the_same_seed_gives_the_same_round(seed, number, calm):
    one = round_of(seed, number, ROBOT, calm=calm)
    assert one == round_of(seed, number, ROBOT, calm=calm)


def test_another_seed_and_another_round_differ():
    rounds = [round_of(seed, number, ROBOT) for seed in range(3) for number in range(3)]
    assert len({str(faults) for faults in rounds}) == len(rounds)


@given(SEEDS, st.integers(0, 50))
def test_every_kind_comes_once_a_round_and_once_a_camera(seed, number):
    found = sorted((f.kind, f.parameters.get("camera", "")) for f in round_of(seed, number, ROBOT))
    wanted = [
        (k.name, camera) for k in KINDS for camera in (ROBOT.cameras if k.each_camera else ("",))
    ]
    assert found == sorted(wanted)


@given(SEEDS, st.integers(0, 50))
def test_a_calm_round_is_the_round_without_the_deadly_ones(seed, number):
    all_, calm = (round_of(seed, number, ROBOT, calm=calm) for calm in (False, True))
    kept = [f for f in all_ if not BY_NAME[f.kind].deadly]
    assert sorted(map(str, calm)) == sorted(map(str, kept))


@given(SEEDS)
def test_every_fault_lasts_as_long_as_its_kind_may_and_can_be_written_down(seed):
    for fault in round_of(seed, 0, ROBOT):
        low, high = BY_NAME[fault.kind].duration
        assert low - 0.01 <= fault.duration <= high + 0.01
        assert json.loads(json.dumps(fault.as_dict())) == fault.as_dict()
        assert str(fault)


@given(SEEDS)
def test_every_fault_can_be_done_and_its_name_looked_for(seed):
    for fault in round_of(seed, 0, ROBOT):
        assert fault.kind in inject.HOW
        if fault.kind in tampers.KINDS:
            touched = [
                stream
                for stream in (*ROBOT.cameras, tampers.JOINTS, tampers.CLOCK)
                if tampers.tamper(fault.kind, fault.parameters, stream) is not None
            ]
            assert touched
        names = BY_NAME[fault.kind].names
        if names is not None:
            re.compile(schedule.pattern(names, fault.parameters))


@given(SEEDS)
def test_the_clock_jumps_only_where_time_is_simulated(seed):
    real = Robot(ROBOT.cameras, ROBOT.joints)
    rest = [f for f in round_of(seed, 0, ROBOT) if not BY_NAME[f.kind].of_clock]
    assert sorted(map(str, round_of(seed, 0, real))) == sorted(map(str, rest))


def test_a_jump_of_the_robots_clock_leaves_the_nodes_clock_and_one_of_time_moves_all():
    streams = (*ROBOT.cameras, tampers.JOINTS, tampers.CLOCK)
    for kind, moved in (("stamps_jump", streams[:-1]), ("clock_jump", streams)):
        assert moved == tuple(s for s in streams if tampers.tamper(kind, {"seconds": 2.0}, s))


def test_a_fault_of_messages_that_is_unknown_is_refused_with_what_there_is():
    with pytest.raises(ValueError, match="camera_dropped"):
        tampers.tamper("gremlins", {}, tampers.JOINTS)


def test_tasks_never_repeat_and_a_storm_has_good_and_bad_ones():
    tasks = instructions.sensible(random.Random(1))
    texts = [next(tasks) for _ in range(100)]
    assert all(a != b for a, b in itertools.pairwise(texts))
    storm = instructions.storm(random.Random(1))
    refused = accepted = 0
    for _ in range(200):
        try:
            clean_instruction(next(storm))
            accepted += 1
        except ValueError:
            refused += 1
    assert refused > 20
    assert accepted > 20
