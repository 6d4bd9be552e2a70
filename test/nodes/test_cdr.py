# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The hand-written CDR reading against two independent implementations: rclpy's and rosbags'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import CompressedImage, Image

from phyai_ros.nodes.cdr import CdrError, read_compressed_image, read_image
from phyai_ros.nodes.convert import stamp_to_ns

STORE = get_typestore(Stores.ROS2_JAZZY)
Header = STORE.types["std_msgs/msg/Header"]
Time = STORE.types["builtin_interfaces/msg/Time"]

seconds = st.integers(-(2**31), 2**31 - 1)
nanoseconds = st.integers(0, 999_999_999)
# Any text but surrogates and NUL, which end a CDR string
text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
u32 = st.integers(0, 2**32 - 1)


@given(
    seconds,
    nanoseconds,
    text,
    u32,
    u32,
    text,
    st.integers(0, 1),
    u32,
    st.binary(max_size=50),
    st.booleans(),
)
def test_image_matches_rclpy_in_both_byte_orders(
    sec, nanosec, frame_id, height, width, encoding, big, step, data, little_endian
):
    kind = STORE.types["sensor_msgs/msg/Image"]
    message = kind(
        Header(Time(sec, nanosec), frame_id),
        height,
        width,
        encoding,
        big,
        step,
        np.frombuffer(data, np.uint8),
    )
    raw = bytes(STORE.serialize_cdr(message, kind.__msgtype__, little_endian=little_endian))
    expected = deserialize_message(raw, Image)

    image = read_image(raw)

    assert image.stamp_ns == stamp_to_ns(expected.header.stamp)
    assert (image.frame_id, image.encoding) == (expected.header.frame_id, expected.encoding)
    assert (image.height, image.width, image.step) == (height, width, step)
    assert image.is_bigendian == bool(expected.is_bigendian)
    assert bytes(image.data) == bytes(expected.data) == data


@given(seconds, nanoseconds, text, text, st.binary(max_size=50), st.booleans())
def test_compressed_image_matches_rclpy_in_both_byte_orders(
    sec, nanosec, frame_id, format_, data, little_endian
):
    kind = STORE.types["sensor_msgs/msg/CompressedImage"]
    message = kind(Header(Time(sec, nanosec), frame_id), format_, np.frombuffer(data, np.uint8))
    raw = bytes(STORE.serialize_cdr(message, kind.__msgtype__, little_endian=little_endian))
    expected = deserialize_message(raw, CompressedImage)

    image = read_compressed_image(raw)

    assert image.stamp_ns == stamp_to_ns(expected.header.stamp)
    assert (image.frame_id, image.format) == (expected.header.frame_id, expected.format)
    assert bytes(image.data) == bytes(expected.data) == data


def test_pixels_are_not_copied():
    message = Image(height=2, width=2, encoding="rgb8", step=6)
    message.data = bytes(range(12))
    raw = serialize_message(message)
    assert np.shares_memory(np.frombuffer(read_image(raw).data, np.uint8), np.frombuffer(raw, "u1"))


@given(st.binary(max_size=80))
def test_any_bytes_give_a_message_or_a_cdr_error(raw):
    try:
        image = read_image(raw)
    except CdrError:
        return
    assert len(image.data) <= len(raw)


@given(st.integers(0, 200))
def test_truncation_is_an_error(cut):
    message = Image(height=4, width=4, encoding="rgb8", step=12)
    message.data = b"\xab" * 48
    raw = serialize_message(message)
    end = raw.rindex(b"\xab") + 1  # anything after is padding
    if cut < end:
        with pytest.raises(CdrError):
            read_image(raw[:cut])


def test_other_representations_are_refused_by_name():
    with pytest.raises(CdrError, match="0x0007"):
        read_image(b"\x00\x07\x00\x00" + bytes(60))
