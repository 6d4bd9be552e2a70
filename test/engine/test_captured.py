# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Requests and the stages they find, on a CPU: a graph here is its work, done again into the memory
of its first result. What is the device's alone is in test_graph.py and test_frames.py."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from phyai_ros.engine import captured, cuda_graph, embedded
from phyai_ros.engine.arrangement import kind_of, order_of
from phyai_ros.engine.kernels import letterbox
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.staging import Stack
from phyai_ros.engine.structure import flatten
from phyai_ros.engine.types import Guidance, Observation, PolicyError

PI05 = "pi05_ur10e_small"
SIZE = (480, 640)
every_policy = pytest.mark.parametrize("policy", embedded.names(), indirect=True)
of_pi05 = pytest.mark.parametrize("policy", [PI05], indirect=True)


class Again:
    """Takes a CUDA graph's place."""

    def __init__(self, work):
        self._work, self.result = work, work()

    def replay(self):
        for old, new in zip(flatten(self.result)[0], flatten(self._work())[0], strict=True):
            old.copy_(new)


@pytest.fixture
def policy(request, monkeypatch):
    """An embedded policy whose requests of one and of two are captured. Of its images only the rows
    travel that are looked at, as to a GPU."""

    def start(graphs, device, warm):
        graphs._device, graphs._fronts, graphs._visions = device, {}, {}

    def record(graphs, work):
        graph = Again(work)
        return graph, graph.result

    monkeypatch.setattr(cuda_graph.Graphs, "__init__", start)
    monkeypatch.setattr(cuda_graph.Graphs, "record", record)
    monkeypatch.setattr(captured, "_Room", lambda device: SimpleNamespace(took=lambda batch: None))
    policy = load_policy(embedded.find(request.param))
    policy.size = next(iter(policy.spec.camera_sizes.values()), SIZE)
    runner, adapter = policy.runner, policy.adapter
    if request.param == PI05:
        side = policy.spec.image_size[0]
        adapter._rows = lambda height, width: letterbox.rows_seen(height, width, side, side)
    runner._captured = captured.Captured(adapter, runner._inlet, runner.operators)
    runner._captured.add(observed(policy), (1, 2), runner.model, runner._solved)
    assert len(runner._captured) > 0
    policy.frames.reserve(*policy.size, 12)
    return policy


def observed(policy, rng=None):
    rng, spec = rng or np.random.default_rng(), policy.spec
    images = {k: rng.integers(0, 256, (*policy.size, 3), dtype=np.uint8) for k in spec.cameras}
    return Observation(images, rng.normal(0, 0.1, spec.state_dim), "pick it up")


def framed(policy, observation, but=()):
    images = {k: v if k in but else policy.frames.put(v) for k, v in observation.images.items()}
    return replace(observation, images=images)


def staged(policy, requests, noise):
    """The answer by way of ``stage_images``, which is near that of an eager run."""
    stages = policy.runner._captured
    orders, stages._orders = stages._orders, {}
    found = policy.infer_batch(requests, noise)
    policy.runner._captured = None
    eager = policy.infer_batch(requests, noise)
    policy.runner._captured, stages._orders = stages, orders
    for one, other in zip(found, eager, strict=True):
        np.testing.assert_allclose(one.normalised, other.normalised, atol=1e-5)
    return found


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.normalised, other.normalised)
        np.testing.assert_array_equal(one.actions, other.actions)


@every_policy
def test_every_request_is_answered_from_its_own_images(policy):
    """In frames, in ordinary memory and in both, one by one and two at once; each kind comes twice,
    before and after it is known."""
    rng, before = np.random.default_rng(), policy.runner.replayed
    for i in range(12):
        plain = [observed(policy, rng) for _ in range(1 + i % 2)]
        mixed = policy.spec.cameras[:1]
        forms = (
            plain,
            [framed(policy, o) for o in plain],
            [framed(policy, o, mixed) for o in plain],
        )
        noise = policy.draw(len(plain))
        same(policy.infer_batch(forms[i // 2 % 3], noise), staged(policy, plain, noise))
    assert policy.runner.replayed == before + 24
    assert len(policy.runner._captured._orders) == 6


@of_pi05
def test_what_is_wrong_with_a_request_is_said_though_its_images_are_known(policy):
    given = observed(policy)
    policy.infer(given)
    rows = np.zeros((3, policy.spec.action_dim))
    wrong = [
        (replace(given, state=given.state * np.nan), None, None, "state: not finite"),
        (replace(given, state=given.state[1:]), None, None, "state: expected"),
        (replace(given, instruction=3), None, None, "instruction: expected text"),
        (given, np.zeros((2, 2)), None, "noise: expected shape"),
        (given, None, Guidance(rows, 9, "rtc_identity", 4), "expected 0 <= committed"),
        (given, None, Guidance(rows, 1, "none", 4), "'none' is not one"),
        (replace(given, images={**given.images, "other": rows}), None, None, "'other' is not one"),
    ]
    for observation, noise, guidance, text in wrong:
        with pytest.raises(PolicyError, match=text):
            policy.infer(observation, noise, guidance)
        other, noise = observed(policy), policy.draw(1)
        same([policy.infer(other, noise)], staged(policy, [other], noise))


@of_pi05
def test_a_request_that_is_refused_takes_no_noise(policy):
    given = observed(policy)
    policy.seed(5)
    expected = [policy.infer(given), policy.infer(given)]
    policy.seed(5)
    found = [policy.infer(given)]
    with pytest.raises(PolicyError):
        policy.infer(replace(given, state=given.state * np.nan))
    same([*found, policy.infer(given)], expected)


@of_pi05
def test_one_array_for_two_cameras_is_never_taken_for_an_order(policy):
    given = observed(policy)
    image, noise = given.images[policy.spec.cameras[0]], policy.draw(1)
    twice = replace(given, images=dict.fromkeys(given.images, image))
    policy.infer(twice, noise)
    assert not policy.runner._captured._orders
    same([policy.infer(given, noise)], staged(policy, [given], noise))


def test_kinds_and_orders():
    rng = np.random.default_rng()
    a, b, c = (rng.integers(0, 256, (4, 6, 3), dtype=np.uint8) for _ in range(3))

    def one(**images):
        return Observation(images, np.zeros(2), "")

    kinds = [
        kind_of(o)
        for o in (
            [one(x=a)], [one(y=a)], [one(x=a, y=b)], [one(x=a), one(y=b)], [one(x=a[1:])],
            [one(x=a.astype(np.int8))], [one(x=a, y=b), one()],
        )
    ]  # fmt: skip
    assert len(set(kinds)) == len(kinds)
    assert kind_of([one(x=a)]) == kind_of([one(x=c)])
    assert kind_of([one(x=a.tolist())]) is None
    assert kind_of([replace(one(x=a), history=(one(x=b),))]) is None
    requests = [one(x=a, y=b), one(x=c)]
    assert order_of(requests, [Stack([c, a]), Stack([b, b])]) == (
        (1, "x"), (0, "x"), (0, "y"), (0, "y"),
    )  # fmt: skip
    assert order_of(requests, [Stack([a.copy()])]) is None
    assert order_of([one(x=a, y=a)], [Stack([a, a])]) is None


@of_pi05
def test_prompts_are_padded_to_what_is_captured_and_to_nothing_else(policy, monkeypatch):
    adapter, runner = policy.adapter, policy.runner
    assert adapter.token_lengths == adapter.graph_lengths([observed(policy)])
    runner.release()
    assert adapter.token_lengths == ()

    def fail(*_):
        raise RuntimeError("no such graph")

    runner._captured = captured.Captured(adapter, runner._inlet, runner.operators)
    monkeypatch.setattr(runner._captured._graphs, "add_child", fail, raising=False)
    runner._captured.add(observed(policy), (1,), runner.model, runner._solved)
    assert adapter.token_lengths == ()


@of_pi05
def test_what_an_adapter_makes_of_a_request_beside_its_images_stays(policy):
    """A vision stage's graph reads it again in every replay, though its result is of no use."""
    stages = policy.runner._captured
    kept = [t for sample in stages._samples for t in flatten(sample)[0]]
    assert kept
    assert len(stages._samples) == 2 * len(policy.adapter.token_lengths)  # requests of one, of two


@of_pi05
@pytest.mark.parametrize(
    ("error", "said"),
    [(RuntimeError("the first line\nthe second"), "the first line"), (TypeError(), "TypeError()")],
)
def test_what_cannot_be_captured_is_told_and_where_it_failed_to_who_asks(
    policy, monkeypatch, caplog, error, said
):
    def refuse(graphs, work):
        raise error

    monkeypatch.setattr(cuda_graph.Graphs, "record", refuse)
    runner = policy.runner
    with caplog.at_level(logging.DEBUG, captured.__name__):
        runner._captured.add(observed(policy), (4,), runner.model, runner._solved)
    warned, told = caplog.records
    assert (warned.levelno, told.levelno) == (logging.WARNING, logging.DEBUG)
    assert warned.getMessage().endswith(f"run eagerly: {said}")
    assert "in refuse" in logging.Formatter().format(told)
