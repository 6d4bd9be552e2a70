# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A live run's chunk comes out of its bag again, whatever order the recorder heard things in."""

import numpy as np
import pytest
from compose import IMAGE, JOINTS, SECOND, Composer
from make_adversarial import SCENE, STATES, picture, positions

from phyai_ros.bags.reader import Bag
from phyai_ros.bags.writer import BagWriter
from phyai_ros.control.states import Request
from phyai_ros.nodes import convert
from phyai_ros.nodes.frame_source import make_aligner
from phyai_ros.replay.compare import parity
from phyai_ros.replay.replay import replay

START = 1_700_000_000 * SECOND
WRIST = "/camera/wrist/image_raw"
CHUNK, REQUEST, STATE = (
    f"phyai_ros/msg/{n}" for n in ("ActionChunk", "InferenceRequest", "HandoffState")
)
EARLY = 5
"""Joint samples after the images that the live policy had not seen yet, but the recorder had."""


def sample_ns(number):
    return START + number * SECOND // 100


def live_chunk(session, request_id, images_at, joints_until):
    """What the live policy answers when it has seen images of one sample and joints up to one."""
    aligner = make_aligner(session.robot, session.binding)
    for number in range(joints_until + 1):
        now = positions(number / 100)
        aligner.add_joints(STATES, convert.ns_to_seconds(sample_ns(number)), now)
    stamp = convert.ns_to_seconds(sample_ns(images_at) + 3_000_000)  # between two joint samples
    for index, role in enumerate(("scene", "wrist")):
        aligner.add_image(role, stamp, picture(images_at, index))
    frame = aligner.assemble(stamp + 0.04)
    request = Request(
        request_id,
        7,
        -1,
        0.0,
        0,
        0.0,
        session.robot.joint_names,
        0.05,
        np.zeros((0, 7)),
        0,
        "reach",
    )
    answered = session.answering.answer(frame, request, "")
    return request, answered.chunk, frame.wait


def fill(session, path, chunks, *, without=()):
    """A bag in which every sensor message comes before the chunk made of some of them."""
    bag = Composer(BagWriter(path))
    make = bag.make
    last = max(at for _, _, _, at in chunks) + 2 * EARLY
    for number in range(last):
        log = sample_ns(number)
        bag.put(STATES, JOINTS, log, bag.joints(log, positions(number / 100)))
        if number % 10 == 0:
            for index, topic in enumerate((SCENE, WRIST)):
                if (topic, number) not in without:
                    stamp = log + 3_000_000
                    message = bag.image(stamp, picture(number, index))
                    bag.put(topic, IMAGE, stamp + 1000 + index, message)
        for request, chunk, wait, at in chunks:
            if at + EARLY != number:
                continue
            names = list(chunk.joint_names)
            none = np.zeros(0)
            ask = make(
                REQUEST, bag.header(START), request.request_id, 7, 0, bag.time(START), names,
                make("builtin_interfaces/msg/Duration", 0, 50_000_000), none, 0, "reach",
            )  # fmt: skip
            bag.put("/phyai/request", REQUEST, log + 1, ask)
            stages = make("phyai_ros/msg/StageTimes", wait, *[0.0] * 6)
            told = make(
                CHUNK, bag.header(convert.seconds_to_ns(chunk.stamp)), chunk.request_id, 7,
                "policy", "reach", names, make("builtin_interfaces/msg/Duration", 0, 50_000_000),
                len(chunk.positions), chunk.positions.ravel(), 0, stages, list(chunk.sources),
                [bag.time(convert.seconds_to_ns(s)) for s in chunk.sources.values()],
            )  # fmt: skip
            bag.put("/phyai/chunk", CHUNK, log + 2, told)
        if number % 5 == 0:
            used = [r.request_id for r, _, _, at in chunks if at + EARLY <= number]
            tick = make(
                STATE, bag.header(log), 2, "", used[-1] if used else 0, 7, *[0] * 10,
                0.0, 0.0, float("nan"),
            )  # fmt: skip
            bag.put("/phyai/handoff_state", STATE, log + 3, tick)
    bag.writer.close()


@pytest.fixture(scope="module")
def chunks(session):
    """The first live policy had seen no joint sample after its images, the second one, the third
    four; the recorder had heard five and more in every case."""
    plan = [(1, 20, 20), (2, 50, 51), (3, 80, 84)]
    return [(*live_chunk(session, i, at, until), at) for i, at, until in plan]


def test_chunks_are_bit_identical_whatever_the_recorder_heard_first(session, chunks, tmp_path):
    fill(session, tmp_path / "bag", chunks)
    with Bag(tmp_path / "bag") as bag:
        result = replay(bag, session)
    found = parity(result)
    assert result.about["mode"] == "recorded"
    assert (found.chunks, found.identical, found.first) == (3, 3, "")
    assert result.about["unanswered"] == []
    # The handoff executed each of them, at the ticks of the bag.
    assert set(result["tick_request"].tolist()) >= {1, 2, 3}
    assert not np.isnan(result["command"][result["tick_request"] == 3]).any()


def test_what_the_live_policy_had_not_seen_would_have_changed_the_state(session, chunks):
    """The case above is one: with the sample after the images the joints are interpolated."""
    _, seen, _, at = chunks[0]
    _, more, _ = live_chunk(session, 1, at, at + 1)
    assert not np.array_equal(seen.positions, more.positions)


def test_an_image_that_the_bag_lacks_is_named_and_the_others_are_answered(
    session, chunks, tmp_path
):
    fill(session, tmp_path / "bag", chunks, without={(WRIST, 50)})
    with Bag(tmp_path / "bag") as bag:
        result = replay(bag, session)
    (left,) = result.about["unanswered"]
    assert (left["request"], left["reason"], left["stream"]) == (2, "not_in_bag", "wrist")
    assert "wrist at 1700000000.503" in left["text"]
    assert result["request_id"].tolist() == [1, 3]
    assert parity(result).identical == 2


def test_another_policy_is_not_taken_for_the_live_one(choices, chunks, session, tmp_path):
    from dataclasses import replace

    from phyai_ros.replay.session import open_session

    fill(session, tmp_path / "bag", chunks)
    with Bag(tmp_path / "bag") as bag:
        result = replay(bag, open_session(replace(choices, seed=5)))
    found = parity(result)
    assert found.identical == 0
    assert found.first.startswith("request 1, joint ")


def test_a_bag_without_a_live_run_is_refused_for_recorded_requests(session, bags):
    with Bag(bags / "adversarial") as bag, pytest.raises(ValueError, match="holds no live run"):
        replay(bag, session, "recorded")


def test_a_bag_that_lacks_a_camera_says_what_it_has(session, tmp_path):
    composer = Composer(BagWriter(tmp_path / "bag"))
    composer.put(STATES, JOINTS, START, composer.joints(START, positions(0)))
    composer.writer.close()
    with Bag(tmp_path / "bag") as bag, pytest.raises(ValueError, match=r"lacks /camera/scene.*has"):
        replay(bag, session)
