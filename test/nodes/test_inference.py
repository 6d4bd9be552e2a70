# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The engine's thread against a real aligner, with an engine that tells what it was given."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

from phyai_ros.control.align import CameraStream, ObservationAligner
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import Request
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN
from phyai_ros.nodes.inference import Answer, InferenceLoop
from phyai_ros.nodes.policy_status import OVERDUE, inference_status
from phyai_ros.nodes.sensors import FrameSource


def chunk(frame, request, position=0.0):
    rows = np.full((2, 1), position)
    return Chunk(request.request_id, request.epoch, frame.stamp, ("pan",), 0.05, rows, committed=1)


class Rig:
    """An InferenceLoop on a clock that the test sets."""

    def __init__(self, infer=None, timeout=20.0):
        self.time = 100.0
        self.answers: list[Answer] = []
        self.changes = threading.Semaphore(0)
        self.published = threading.Semaphore(0)
        aligner = ObservationAligner([CameraStream("scene")], ["pan"])
        self.source = FrameSource(aligner, lambda: self.time)
        self.loop = InferenceLoop(
            self.source, infer or self.echo, self.publish, self.changes.release, timeout
        )
        self.loop.start()

    def echo(self, frame, request):
        return chunk(frame, request, frame.joints["pan"]), {"solver": 0.5}

    def publish(self, answer):
        self.answers.append(answer)
        self.published.release()

    def ask(self, request_id, not_before=0.0, instruction="reach"):
        self.loop.submit(
            Request(
                request_id,
                1,
                -1,
                not_before,
                0,
                0.0,
                ("pan",),
                0.05,
                np.zeros((0, 1)),
                0,
                instruction,
            )
        )

    def see(self, stamp, position=0.5):
        self.time = stamp
        self.source.aligner.add_joints("joints", stamp, {"pan": position})
        self.source.aligner.add_image("scene", stamp, np.full((2, 2, 3), int(stamp * 10) % 255))
        self.source.ring()


@pytest.fixture
def make():
    rigs = []

    def make_rig(*args, **kwargs):
        rigs.append(Rig(*args, **kwargs))
        return rigs[-1]

    yield make_rig
    assert all(rig.loop.stop(20) for rig in rigs)


def test_a_request_waits_for_an_observation_that_is_not_older(make):
    rig = make()
    rig.see(100.0, 0.1)
    rig.ask(1, not_before=100.1)
    assert not rig.published.acquire(timeout=0.05)
    rig.see(100.2, 0.2)
    assert rig.published.acquire(timeout=20)
    answer = rig.answers[0]
    found = answer.chunk
    assert (found.stamp, found.positions[0, 0], found.request_id) == (100.2, 0.2, 1)
    assert found.committed == 1  # all that the policy says of its chunk goes out
    assert set(answer.stages) == {"wait", "solver"}


def test_a_newer_request_replaces_one_that_still_waits(make):
    rig = make()
    rig.ask(1)
    rig.ask(2, instruction="other")
    rig.see(100.0)
    assert rig.published.acquire(timeout=20)
    assert [a.chunk.request_id for a in rig.answers] == [2]
    assert rig.loop.slot.replaced + rig.loop.dropped.as_dict().get("superseded", 0) == 1


def test_the_wait_is_bounded_and_says_what_is_missing(make):
    rig = make(timeout=0.02)
    rig.ask(1)
    assert rig.changes.acquire(timeout=20)
    assert "no observation that may answer: scene: never_came" in rig.loop.trouble
    assert rig.loop.dropped.as_dict() == {"never_came scene": 1}
    rig.see(100.0)
    rig.ask(2)
    assert rig.published.acquire(timeout=20)
    assert rig.changes.acquire(timeout=20)
    assert rig.loop.trouble is None


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("camera 'wrist' is missing"), "camera 'wrist' is missing"),
        (RuntimeError("out of memory"), "RuntimeError: out of memory"),
    ],
)
def test_no_failure_ends_the_thread(make, error, says):
    failures = itertools.chain([error], itertools.repeat(None))

    def infer(frame, request):
        failure = next(failures)
        if failure is not None:
            raise failure
        return chunk(frame, request), {}

    rig = make(infer)
    rig.see(100.0)
    rig.ask(1)
    assert rig.changes.acquire(timeout=20)
    assert rig.loop.trouble == says
    rig.ask(2)
    assert rig.published.acquire(timeout=20)
    assert rig.loop.answered == 1


def test_a_cleared_source_answers_nothing_from_before(make):
    rig = make()
    rig.see(100.0, 0.1)
    rig.source.clear()
    rig.ask(1)
    assert not rig.published.acquire(timeout=0.05)
    # The aligner finds out that time went back when it assembles, and may clear once more.
    for k in range(100):
        rig.see(50.0 + 0.1 * k, 0.3)
        if rig.published.acquire(timeout=0.2):
            break
    assert [a.chunk.stamp < 100.0 for a in rig.answers] == [True]
    assert rig.answers[0].chunk.positions[0, 0] == 0.3


def test_an_answer_that_comes_after_the_stop_is_not_published(make):
    entered, go_on = threading.Event(), threading.Event()

    def infer(frame, request):
        entered.set()
        assert go_on.wait(20)
        return chunk(frame, request), {}

    rig = make(infer)
    rig.see(100.0)
    rig.ask(1)
    assert entered.wait(20)
    assert not rig.loop.stop(patience=0.0)
    go_on.set()
    assert rig.loop.stop(patience=20)
    assert rig.answers == []
    assert rig.loop.dropped.as_dict() == {"stopped": 1}


def test_a_source_that_breaks_does_not_end_the_thread(make):
    rig = make()
    rig.see(100.0)
    rig.loop._source.now = lambda: 1 / 0
    rig.ask(1)
    assert rig.changes.acquire(timeout=20)
    assert rig.loop.trouble.startswith("ZeroDivisionError")
    assert "wait_frame" in rig.loop.traceback
    rig.loop._source.now = lambda: rig.time
    rig.ask(2)
    assert rig.published.acquire(timeout=20)


def test_an_inference_that_hangs_is_not_ok(make):
    """A device that hangs never answers, and never fails: the status said ok, for ever."""
    go_on = threading.Semaphore(0)

    def infer(frame, request):
        if request.request_id == 2:
            go_on.acquire()
        return chunk(frame, request), {}

    rig = make(infer)
    rig.see(100.0)
    rig.ask(1)
    assert rig.published.acquire(timeout=20)
    rig.ask(2)
    for _ in range(2000):
        if rig.loop.under_way(time.monotonic()) > 0.0 and not rig.loop.slot.waiting:
            break
        time.sleep(0.01)
    now = time.monotonic()
    assert inference_status(rig.loop, "act", "reach", now).level == OK
    late = inference_status(rig.loop, "act", "reach", now + OVERDUE + 1.0)
    assert (late.level, "under way for" in late.message) == (WARN, True)
    go_on.release()
    assert rig.published.acquire(timeout=20)
    rig.ask(3)
    assert rig.published.acquire(timeout=20)
    assert inference_status(rig.loop, "act", "reach", now).message == "ok"


def test_a_failure_that_the_next_answer_follows_at_once_is_in_the_status(make):
    def fails_once(frame, request):
        if request.request_id == 1:
            raise ValueError("no instruction yet")
        return chunk(frame, request), {}

    rig = make(infer=fails_once)
    rig.see(100.0)
    for request_id in (1, 2):  # nobody looks between them
        rig.ask(request_id, not_before=100.0)
        assert rig.changes.acquire(timeout=20)
    assert rig.loop.trouble is None
    status = inference_status(rig.loop, "act", "reach", time.monotonic())
    assert (status.level, status.message) == (ERROR, "no instruction yet")
