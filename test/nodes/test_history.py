# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Earlier moments for a policy that looks back: chosen by their stamps, never across a jump."""

from types import SimpleNamespace

import pytest

from phyai_ros.control.align import NotReady, Reason
from phyai_ros.engine.types import Observation
from phyai_ros.nodes.history import History
from phyai_ros.robots.errors import RobotError

STEP = 0.1


class Moments:
    """Hands out one frame a call, of these stamps; None: no frame can be made."""

    def __init__(self, stamps):
        self._stamps = iter(stamps)
        self.aligner = self

    def now(self):
        return 0.0

    def assemble(self, now):
        stamp = next(self._stamps)
        if stamp is None:
            raise NotReady(Reason.TOO_OLD, "scene", "1 s old")
        return SimpleNamespace(stamp=stamp)


def history(stamps, length=2):
    binding = SimpleNamespace(
        step=STEP, observation=lambda frame, text: Observation({}, None, text, frame.stamp)
    )
    made = History(binding, Moments(stamps), length)
    for _ in stamps:
        made.record()
    return made


def before(made, stamp):
    return [moment.stamp for moment in made.before(stamp)]


def test_the_nearest_moment_of_each_step_back_oldest_first():
    assert before(history([1.0, 1.1, 1.21, 1.3]), 1.3) == [1.1, 1.21]


def test_a_step_without_a_moment_ends_the_past():
    """The engine repeats the oldest there is; a moment two steps too old would be a lie."""
    assert before(history([1.0, 1.1, 1.3]), 1.3) == []
    assert before(history([1.2, 1.3]), 1.3) == [1.2]


def test_moments_that_could_not_be_made_are_left_out():
    assert before(history([1.1, None, 1.2]), 1.3) == [1.1, 1.2]


def test_time_that_went_back_forgets_what_is_now_the_future():
    made = history([5.0, 5.1, 1.0, 1.1])
    assert before(made, 1.2) == [1.0, 1.1]
    assert before(made, 5.2) == []


@pytest.mark.parametrize("length", [1, 3])
def test_what_is_kept_is_bounded(length):
    made = history([0.1 * k for k in range(100)], length)
    assert len(made._moments) == 2 * length + 1


def test_a_moment_that_does_not_fit_the_checkpoint_is_left_out():
    """A joint in another unit: the request's own answer says so. Here, in a timer of the executor,
    it would have ended the node."""

    def observation(frame, text):
        if frame.stamp == 1.1:
            raise RobotError("state: 'pan' is 57.3 where it was trained far within [-6, 6]")
        return Observation({}, None, text, frame.stamp)

    made = History(SimpleNamespace(step=STEP, observation=observation), Moments([1.0, 1.1, 1.2]), 2)
    for _ in range(3):
        made.record()
    assert before(made, 1.3) == [1.2]
