# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Messages to values and back: exact stamps, joints by name, chunks unchanged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Image, JointState

from phyai_ros.control.chunk import Chunk
from phyai_ros.engine.types import STAGES
from phyai_ros.msg import ActionChunk, StageTimes
from phyai_ros.nodes import convert
from phyai_ros.nodes.convert import MessageError

stamps_ns = st.integers(-(2**31) * 10**9, 2**31 * 10**9 - 1)


def joint_state(names, positions, sec=5):
    message = JointState(name=list(names), position=[float(p) for p in positions])
    message.header.stamp.sec = sec
    return message


@given(stamps_ns)
def test_stamps_are_exact_in_nanoseconds(nanoseconds):
    assert convert.stamp_to_ns(convert.set_time(Time(), nanoseconds)) == nanoseconds


@given(st.integers(0, 2**31 * 10**9 - 1))
def test_float_seconds_come_back_within_their_own_resolution(nanoseconds):
    seconds = convert.ns_to_seconds(nanoseconds)
    error = abs(convert.seconds_to_ns(seconds) - nanoseconds)
    assert error <= math.ulp(seconds) * 1e9 + 1


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_times_that_are_no_numbers_are_refused(seconds):
    with pytest.raises(MessageError, match="not finite"):
        convert.seconds_to_ns(seconds)


@given(st.permutations(["pan", "lift", "elbow"]))
def test_joints_go_by_name_not_by_position(names):
    values = {"pan": 0.1, "lift": 0.2, "elbow": 0.3}
    sample = convert.joints_from_message(joint_state(names, [values[n] for n in names]))
    assert sample.positions == values
    assert sample.stamp == 5.0


def test_part_of_the_joints_is_fine_and_none_at_all_too():
    two_arms = convert.joints_from_message(joint_state(["waist"], [0.5]), "left_")
    assert two_arms.positions == {"left_waist": 0.5}
    assert convert.joints_from_message(joint_state(["gripper"], [0.04])).positions == {
        "gripper": 0.04
    }
    efforts = JointState(name=["pan"], effort=[1.0])
    efforts.header.stamp.sec = 1
    assert convert.joints_from_message(efforts).positions == {}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_position_that_is_no_number_is_named(bad):
    sample = convert.joints_from_message(joint_state(["pan", "lift"], [bad, 0.5]))
    assert sample.nonfinite == ("pan",)
    assert list(sample.positions) == ["pan", "lift"]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (joint_state(["pan", "lift"], [0.0]), "2 joint names but 1 positions"),
        (joint_state(["pan", "pan"], [0.0, 1.0]), "twice: pan"),
    ],
)
def test_joint_states_that_contradict_themselves_are_refused(message, says):
    with pytest.raises(MessageError, match=says):
        convert.joints_from_message(message)


def test_image_stamp_and_pixels():
    message = Image(height=1, width=1, encoding="mono8", step=1, data=[3])
    message.header.stamp.nanosec = 5
    sample = convert.image_from_raw(serialize_message(message))
    assert (sample.stamp_ns, sample.pixels.tolist()) == (5, [[[3, 3, 3]]])


names = st.lists(st.text("abc_", min_size=1, max_size=5), unique=True, min_size=1, max_size=4)


@given(names, st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_a_chunk_crosses_the_wire_unchanged(joint_names, horizon, seed):
    rng = np.random.default_rng(seed)
    chunk = Chunk(
        stamp=12.25,
        request_id=2**40,
        epoch=3,
        policy="gr00t",
        instruction="reach the red block",
        joint_names=tuple(joint_names),
        step=0.05,
        positions=rng.normal(size=(horizon, len(joint_names))),
        committed=1,
        sources={"scene": 1.7e9 + 12.25, "pan": 1.7e9 + 12.2500003},
    )
    stages = {"vision": 0.25, "solver": 0.5}
    wire = serialize_message(convert.fill_chunk(ActionChunk(), chunk, stages))
    message = deserialize_message(wire, ActionChunk)
    back = convert.chunk_from_message(message)
    assert convert.stages_from_message(message.stages) == stages
    np.testing.assert_array_equal(back.positions, chunk.positions)
    assert {**vars(back), "positions": None} == {**vars(chunk), "positions": None}


def test_stages_that_were_not_measured_are_nan_on_the_wire():
    stages = convert.fill_stages(StageTimes(), {"wait": 1.0})
    assert stages.wait == 1.0
    assert all(math.isnan(getattr(stages, name)) for name in STAGES if name != "wait")


@pytest.mark.parametrize(
    ("columns", "values", "horizon", "says"),
    [
        (["a", "b"], [1.0, 2.0, 3.0], 2, "no multiple of 2"),
        (["a", "b"], [1.0, 2.0], 2, "1 rows, horizon is 2"),
        ([], [1.0], 1, "names no joint"),
    ],
)
def test_chunks_of_another_shape_are_refused(columns, values, horizon, says):
    message = ActionChunk(joint_names=columns, positions=values, horizon=horizon)
    with pytest.raises(MessageError, match=says):
        convert.chunk_from_message(message)


def test_values_are_left_for_the_guard_to_judge():
    message = ActionChunk(joint_names=["a"], positions=[math.nan], horizon=1)
    assert np.isnan(convert.chunk_from_message(message).positions).all()
