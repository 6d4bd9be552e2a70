# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What each fault of messages makes of a real serialised message, and what the nodes' own readers
say to it."""

import math

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState

from phyai_ros.nodes import cdr, convert, images
from phyai_ros.tools.soaking.faults import cameras, joints, messages, stamps

STAMP = 1_700_000_000_250_000_000


def image(fill=7, stamp=STAMP, frame="camera"):
    message = Image(height=4, width=6, encoding="rgb8", step=18)
    message.header.frame_id = frame
    convert.set_time(message.header.stamp, stamp)
    message.data = bytes([fill]) * 72
    return serialize_message(message)


def clock():
    message = Clock()
    convert.set_time(message.clock, STAMP)
    return serialize_message(message)


def joint_state():
    message = JointState(name=["a", "b", "c"], position=[1.0, 2.0, 3.0], velocity=[4.0, 5.0, 6.0])
    convert.set_time(message.header.stamp, STAMP)
    return serialize_message(message)


def one(sent):
    ((at, data),) = sent
    return at, data


def test_dropped_is_nothing_and_delayed_is_the_same_later():
    assert messages.dropped(image(), 5.0) == []
    assert messages.Delayed(0.5)(image(), 5.0) == [(5.5, image())]


@pytest.mark.parametrize("seconds", [-3.25, 0.5, 30.0])
@pytest.mark.parametrize(
    ("make", "kind"), [(image, Image), (joint_state, JointState), (clock, Clock)]
)
def test_shifted_stamps_and_nothing_else(seconds, make, kind):
    at, data = one(stamps.Shifted(seconds)(make(), 5.0))
    assert at == 5.0
    assert stamps.read(data) == STAMP + round(seconds * 1e9)
    # What stands between two fields is nobody's: bytes may differ there.
    back = [deserialize_message(x, kind) for x in (stamps.write(data, STAMP), make())]
    assert back[0] == back[1]


def test_bytes_without_a_stamp_are_refused():
    with pytest.raises(ValueError, match="header"):
        stamps.read(b"\0\0\0\0")


@pytest.mark.parametrize("frame", ["", "a", "abc", "camera_optical_frame"])
def test_frozen_by_stamp_and_by_pixels(frame):
    first, later = image(7, STAMP, frame), image(9, STAMP + 50_000_000, frame)
    stuck = cameras.FrozenStamp()
    assert [one(stuck(data, 5.0))[1] for data in (first, later)] == [first, first]
    pixels = cameras.FrozenPixels()
    pixels(first, 5.0)
    raw = cdr.read_image(one(pixels(later, 5.0))[1])
    assert raw.stamp_ns == STAMP + 50_000_000
    assert set(raw.data) == {7}


@pytest.mark.parametrize("frame", ["", "a", "abc", "camera_optical_frame"])
@pytest.mark.parametrize("what", cameras.CORRUPTED)
def test_the_nodes_refuse_every_corrupted_image(what, frame):
    good = image(frame=frame)
    convert.image_from_raw(good)
    _, bad = one(cameras.CORRUPTED[what](good, 5.0))
    with pytest.raises((convert.MessageError, cdr.CdrError, images.ImageError)):
        convert.image_from_raw(bad)


def test_a_joint_is_missing_with_all_its_values():
    message = deserialize_message(one(joints.Missing("b")(joint_state(), 5.0))[1], JointState)
    assert list(message.name) == ["a", "c"]
    assert list(message.position) == [1.0, 3.0]
    assert list(message.velocity) == [4.0, 6.0]


def test_a_position_is_no_number_and_the_others_stay():
    message = deserialize_message(one(joints.NotANumber("b")(joint_state(), 5.0))[1], JointState)
    assert math.isnan(message.position[1])
    assert np.array(message.position)[[0, 2]].tolist() == [1.0, 3.0]
