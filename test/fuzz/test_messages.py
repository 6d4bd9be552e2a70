# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whatever comes over DDS: pixels, joints, chunks and requests, or a ValueError for people. The
arm moves on nothing that is not within its limits."""

import math
import struct
import tracemalloc
import zlib

import cv2
import numpy as np
import pytest
from fuzzing import damaged, fuzz, outcome
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, Image, JointState

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.msg import ActionChunk, InferenceRequest
from phyai_ros.nodes import convert, images
from phyai_ros.nodes.instruction import clean_instruction
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.robots import load

RGB = np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3)
IMAGE = serialize_message(Image(height=12, width=16, encoding="rgb8", step=48, data=RGB.tobytes()))
JPEG, PNG = (cv2.imencode(suffix, RGB)[1].tobytes() for suffix in (".jpg", ".png"))
any_float = st.floats(width=64)
name = st.one_of(st.sampled_from("abc"), st.text(max_size=4))


@fuzz
@given(st.data())
def test_any_damage_to_an_image(data):
    sample, _ = outcome(ValueError, lambda: convert.image_from_raw(data.draw(damaged(IMAGE, 4))))
    if sample is not None:
        assert sample.pixels.dtype == np.uint8
        assert sample.pixels.ndim == 3
        assert sample.pixels.shape[2] == 3
        int(sample.pixels.sum())  # every pixel may be read


@fuzz
@given(
    st.sampled_from([*images.SUPPORTED, "16UC1", "", "yuv422"]),
    *[st.one_of(st.integers(0, 40), st.just(2**32 - 1))] * 3,
    st.binary(max_size=300),
)
def test_any_layout_of_any_bytes(encoding, height, width, step, data):
    layout = images.PixelLayout(height, width, encoding, step)
    pixels, _ = outcome(ValueError, lambda: images.rgb_view(layout, data))
    if pixels is not None:
        assert pixels.shape == (height, width, 3)
        int(pixels.sum())


@fuzz
@given(st.data(), st.sampled_from(["jpeg", "png", "rgb8; jpeg compressed bgr8", "", "tiff"]))
def test_any_damage_to_a_compressed_image(data, format_):
    packed = data.draw(damaged(data.draw(st.sampled_from([JPEG, PNG]))))
    raw = serialize_message(CompressedImage(format=format_, data=packed))
    sample, _ = outcome(ValueError, lambda: convert.compressed_from_raw(raw))
    if sample is not None:
        assert sample.pixels.shape[2] == 3


def png(width, height):
    def block(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(bytes(width + 1)) for _ in range(min(height, 8192)))
    return (
        b"\x89PNG\r\n\x1a\n"
        + block(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + block(b"IDAT", body + packer.flush())
        + block(b"IEND", b"")
    )


def jpeg(width, height):
    at = JPEG.index(b"\xff\xc0") + 5
    return JPEG[:at] + struct.pack(">HH", height, width) + JPEG[at + 4 :]


@pytest.mark.parametrize(
    ("codec", "data"),
    [("png", png(8192, 8192)), ("png", png(2**31 - 1, 1)), ("jpeg", jpeg(65535, 65535))],
    ids=["png", "wide png", "jpeg"],
)
def test_a_small_file_that_unpacks_to_a_huge_image_is_refused_before_it_is_unpacked(codec, data):
    tracemalloc.start()
    with pytest.raises(images.ImageError, match="expected at most"):
        images.decode_compressed(codec, data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * len(data) + 1_000_000


@fuzz
@given(
    st.lists(name, max_size=6),
    st.lists(any_float, max_size=6),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**32 - 1),
)
def test_any_joint_state(names, positions, sec, nanosec):
    message = JointState(name=names, position=positions)
    message.header.stamp.sec, message.header.stamp.nanosec = sec, nanosec
    sample, _ = outcome(ValueError, lambda: convert.joints_from_message(message))
    if sample is None:
        return
    buffer = JointBuffer(("a", "b"), 1.0)
    buffer.add(sample, 0.0)
    known = buffer.positions(0.0)
    assert known is None or np.isfinite(known).all()


shapes = st.tuples(st.integers(0, 6), st.integers(0, 4))


@st.composite
def chunk_messages(draw):
    names = draw(st.lists(name, max_size=4))
    message = ActionChunk(
        request_id=draw(st.integers(0, 2**64 - 1)),
        epoch=draw(st.integers(0, 2**64 - 1)),
        joint_names=names,
        horizon=draw(st.one_of(st.integers(0, 6), st.just(2**32 - 1))),
        positions=draw(st.lists(any_float, max_size=24)),
        committed=draw(st.integers(0, 2**32 - 1)),
        sources=draw(st.lists(name, max_size=3)),
    )
    message.header.stamp.sec = draw(st.integers(-(2**31), 2**31 - 1))
    message.step.sec = draw(st.integers(-3, 3))
    message.step.nanosec = draw(st.integers(0, 2**32 - 1))
    return message


@fuzz
@given(chunk_messages())
def test_any_chunk_message(message):
    chunk, _ = outcome(ValueError, lambda: convert.chunk_from_message(message))
    if chunk is not None:
        assert chunk.positions.shape == (message.horizon, len(message.joint_names))


@fuzz
@given(
    st.lists(name, max_size=4),
    st.lists(any_float, max_size=24),
    st.integers(0, 2**32 - 1),
    st.text(max_size=20),
)
def test_any_request_message(names, leftover, committed, instruction):
    message = InferenceRequest(
        joint_names=names, leftover=leftover, committed=committed, instruction=instruction
    )
    request, _ = outcome(ValueError, lambda: convert.request_from_message(message))
    if request is not None:
        assert request.leftover.size == len(leftover)


@fuzz
@given(st.text(max_size=5000))
def test_any_instruction(text):
    cleaned, _ = outcome(ValueError, lambda: clean_instruction(text))
    assert cleaned is None or 0 < len(cleaned) <= 2000


LIMITS = Limits(("a", "b"), np.full(2, -1.0), np.full(2, 1.0), np.full(2, 2.0), np.full(2, 20.0))
PERIOD = 0.05


@st.composite
def chunks(draw, request, now):
    """Mostly nearly right: what is wrong altogether is refused at the first check."""
    names = draw(st.sampled_from([("a", "b"), ("b", "a"), ("a",), ("a", "a"), ("a", "b", "c")]))
    rows = draw(
        arrays.arrays(
            np.float64,
            (draw(st.integers(0, 12)), len(names)),
            elements=st.one_of(st.floats(-1.5, 1.5), any_float),
        )
    )
    return Chunk(
        request_id=draw(st.sampled_from([request.request_id, 0, request.request_id + 1])),
        epoch=draw(st.sampled_from([request.epoch, request.epoch - 1, 0])),
        stamp=now + draw(st.sampled_from([0.0, -0.1, -0.3, -10.0, 1.0, 1e9, math.nan, math.inf])),
        joint_names=names,
        step=draw(st.sampled_from([PERIOD, 2 * PERIOD, 0.07, 0.0, -PERIOD, math.nan, 1e300])),
        positions=rows,
        committed=draw(st.sampled_from([0, 3, -5, 2**40])),
    )


@fuzz
@given(st.data())
def test_no_sequence_of_chunks_moves_the_arm_beyond_its_limits(data):
    handoff = Handoff(LIMITS, HandoffConfig(PERIOD, 4, fault_after_broken=10**9))
    now, request, last, speed = 100.0, None, None, np.zeros(2)
    for _ in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.sampled_from([PERIOD, PERIOD, PERIOD, 3 * PERIOD]))
        if request is not None and data.draw(st.booleans()):
            chunk = data.draw(chunks(request, now))
            outcome(ChunkRefused, lambda chunk=chunk: handoff.accept(chunk))
        measured = data.draw(st.sampled_from([np.zeros(2), np.array([0.2, -0.4]), None]))
        if measured is not None and last is not None:
            measured = last
        command = handoff.tick(now, measured)
        request = handoff.request(now) or request
        if command.positions is None:
            last, speed = None, np.zeros(2)
            continue
        assert np.isfinite(command.positions).all()
        assert (np.abs(command.positions) <= 1.0 + 1e-9).all()
        if last is not None:
            moved = (command.positions - last) / PERIOD
            assert (np.abs(moved) <= 2.0 + 1e-6).all()
            assert (np.abs(moved - speed) <= 20.0 * PERIOD + 1e-6).all()
            speed = moved
        last = command.positions


def test_a_publisher_that_invents_names_costs_no_memory():
    """Names that the robot does not have are remembered for people, a bounded number of them."""
    from phyai_ros.control.align import MOST_NAMES, CameraStream, ObservationAligner

    aligner = ObservationAligner([CameraStream("scene")], load("ur10e").joint_names)
    for i in range(3000):
        aligner.add_joints("/joint_states", 1.0 + i * 1e-3, {f"joint_{i}": 0.0})
    assert len(aligner._sources["/joint_states"]) <= MOST_NAMES


@pytest.mark.parametrize("names", [["j" * 10**6], [f"joint_{i}" for i in range(10**5)]])
def test_a_refusal_quotes_no_more_than_fits_a_screen(names):
    """It goes to the log and to diagnostics, four times a second."""
    handoff = Handoff(LIMITS, HandoffConfig(PERIOD, 4))
    handoff.tick(100.0, np.zeros(2))
    request = handoff.request(100.0)
    rows = np.zeros((4, len(names)))
    chunk = Chunk(request.request_id, request.epoch, 100.0, tuple(names), PERIOD, rows)
    _, refusal = outcome(ChunkRefused, lambda: handoff.accept(chunk))
    assert refusal.startswith("joint_names: expected ['a', 'b'], found ['j")
    assert len(refusal) < 1100
    assert len(handoff.last_drop) < 1100
