# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Everything that sensors do wrong: refused by name, got over, and no pixel wrong meanwhile."""

import make_adversarial
import numpy as np
import pytest

from phyai_ros.bags.reader import Bag
from phyai_ros.replay.compare import compare
from phyai_ros.replay.replay import replay

SCENE, WRIST, STATES = make_adversarial.SCENE, make_adversarial.WRIST, make_adversarial.STATES


def seconds_of(result):
    """Observation times in seconds of the simulated clock since its start."""
    return (result["stamp_ns"] - make_adversarial.SIMULATED_START) / 1e9


@pytest.mark.parametrize(
    ("topic", "kind", "count", "says"),
    [
        (SCENE, "ImageError", 6, "encoding '16UC1' is not supported"),
        (WRIST, "ImageError", 6, "says png, the bytes are jpeg"),
        (SCENE, "repeated_stamp", 10, "scene: its stamp came before"),
        (STATES, "MessageError", 3, "6 joint names but 7 positions"),
        (STATES, "non_finite", 4, "elbow_joint: a position is not a number"),
        (STATES, "zero_stamp", 21, "has no stamp"),
        ("/clock", "clock_jumped", 1, "jumped by -1.990 s"),
        ("/instruction", "ValueError", 1, "instruction is empty"),
    ],
)
def test_every_message_that_is_not_used_is_named(replayed, topic, kind, count, says):
    (entry,) = [r for r in replayed.about["refusals"] if (r["topic"], r["kind"]) == (topic, kind)]
    assert entry["count"] == count
    assert says in entry["first"]


@pytest.mark.parametrize(
    ("outcome", "reason", "stream"),
    [
        ("delayed", "too_old", "wrist"),  # the gap
        ("delayed", "frozen", "wrist"),
        ("delayed", "non_finite", "elbow_joint"),
        ("unanswered", "too_old", "scene"),  # it stopped
    ],
)
def test_every_request_that_waited_says_for_which_stream_and_why(replayed, outcome, reason, stream):
    told = {(entry["reason"], entry["stream"]) for entry in replayed.about[outcome]}
    assert (reason, stream) in told


def test_each_phase_is_got_over(replayed):
    at = seconds_of(replayed)
    assert replayed.about["clock"] == "/clock"
    for begin, end in ((0.1, 3.0), (3.4, 4.4), (5.2, 6.0), (7.3, 8.3)):
        assert ((at >= begin) & (at < end)).sum() >= 2, (begin, end, at)
    # Simulated time went back once, and chunks came before and after.
    assert (np.diff(at) < 0).sum() == 1
    assert not np.isnan(replayed["command"][-1]).any(), "a stopped arm keeps its last command"


def test_padding_colour_order_and_joint_order_change_nothing(session, bags, replayed):
    with Bag(bags / "plain") as bag:
        plain = replay(bag, session)
    comparison = compare(plain, replayed)
    assert comparison.passed, comparison.first
    np.testing.assert_array_equal(plain["image_hash"], replayed["image_hash"])
    np.testing.assert_array_equal(plain["chunk"], replayed["chunk"])


def test_the_pixels_are_those_that_were_drawn(replayed, session):
    """A hash of every scene image that must have been used, made without the reader."""
    import hashlib

    drawn = {}
    for number in range(round(make_adversarial.LENGTH * make_adversarial.CAMERA_RATE)):
        rgb = make_adversarial.picture(number, 0)
        drawn[hashlib.sha256(repr(rgb.shape).encode() + rgb.tobytes()).digest()] = number
    scene = replayed.about["cameras"].index("scene")
    numbers = [drawn.get(h.tobytes()) for h in replayed["image_hash"][:, scene]]
    assert None not in numbers
    before = seconds_of(replayed)[: numbers.index(max(numbers[:25])) + 1]
    expected = np.round(before * make_adversarial.CAMERA_RATE)
    assert np.abs(np.array(numbers[: len(before)]) - expected).max() <= 1
