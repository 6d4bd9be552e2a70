# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The same bag and seed give the same file, byte for byte, on a busy machine too."""

import multiprocessing
import os

import numpy as np
import pytest

from phyai_ros.bags.reader import Bag
from phyai_ros.replay.compare import compare
from phyai_ros.replay.replay import replay
from phyai_ros.replay.result import save
from phyai_ros.replay.session import open_session


def burn(until_set):
    while not until_set.is_set():
        sum(range(1000))


@pytest.fixture
def hogs():
    """Two busy processes a core."""
    context = multiprocessing.get_context("spawn")
    done = context.Event()
    processes = [context.Process(target=burn, args=(done,)) for _ in range(2 * os.cpu_count())]
    for process in processes:
        process.start()
    yield
    done.set()
    for process in processes:
        process.join(10)


def test_two_replays_under_load_are_byte_identical(choices, bags, replayed, hogs, tmp_path):
    save(replayed, tmp_path / "quiet.npz")
    with Bag(bags / "adversarial") as bag:
        again = replay(bag, open_session(choices))
    save(again, tmp_path / "busy.npz")
    assert (tmp_path / "quiet.npz").read_bytes() == (tmp_path / "busy.npz").read_bytes()


def test_another_seed_gives_other_chunks_from_the_same_observations(choices, bags, replayed):
    from dataclasses import replace

    with Bag(bags / "adversarial") as bag:
        other = replay(bag, open_session(replace(choices, seed=1)))
    np.testing.assert_array_equal(other["image_hash"][0], replayed["image_hash"][0])
    assert not np.array_equal(other["chunk"][0], replayed["chunk"][0])
    comparison = compare(other, replayed)
    assert not comparison.passed
    assert comparison.first.startswith("seed: expected 0, found 1")


def test_the_reference_path_agrees(choices, bags, replayed):
    from dataclasses import replace

    with Bag(bags / "adversarial") as bag:
        reference = replay(bag, open_session(replace(choices, selector="reference")))
    comparison = compare(reference, replayed)
    assert comparison.passed, comparison.first


def test_a_shorter_delay_moves_the_handoff_and_not_the_noise(choices, bags, replayed):
    from dataclasses import replace

    with Bag(bags / "adversarial") as bag:
        quick = replay(bag, open_session(replace(choices, delay=0.02)))
    assert len(quick["request_id"]) != len(replayed["request_id"]) or not np.array_equal(
        quick["tick_request"], replayed["tick_request"]
    )
    np.testing.assert_array_equal(quick["chunk"][0], replayed["chunk"][0])
