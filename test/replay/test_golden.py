# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Recorded simulator runs of both embedded families, replayed against what they gave when they
were made (tools/bags/make_golden.py). Observations and ticks exactly, actions within float32's
tolerance: another machine may add in another order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from phyai_ros.bags.reader import Bag
from phyai_ros.replay.compare import TOLERANCE, compare, parity
from phyai_ros.replay.replay import replay
from phyai_ros.replay.result import load
from phyai_ros.replay.session import Choices, open_session

ROOT = Path(__file__).parents[2]
DATA = ROOT / "test" / "data" / "bags"
FAMILIES = {"gr00t": "gr00t_ur10e_small", "pi05": "pi05_ur10e_small"}
LARGEST = 4_000_000
"""Bytes that all of it may take in the repository."""


def choices_for(family):
    return Choices(str(ROOT / "phyai_ros" / "checkpoints" / FAMILIES[family]), "ur10e")


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def family(request):
    return request.param, open_session(choices_for(request.param))


@pytest.mark.parametrize("mode", ["recorded", "own"])
def test_a_replay_gives_the_golden(family, mode):
    name, session = family
    with Bag(DATA / name) as bag:
        result = replay(bag, session, mode)
    golden = load(DATA / f"{name}.{mode}.npz")
    comparison = compare(result, golden)
    assert comparison.passed, comparison.first
    assert len(result["request_id"]) >= 5


def test_the_live_chunks_come_back(family):
    name, session = family
    with Bag(DATA / name) as bag:
        result = replay(bag, session, "recorded")
    found = parity(result)
    assert found.chunks == len(result["live"]) >= 5
    assert list(result.about["live_policies"]) == [result.about["policy"]]
    spans = np.ptp(result["live"], axis=(0, 1))
    assert (found.error <= TOLERANCE["float32"] * spans).all()
    # Holds and resets of the live run are the bag's to tell, and its commands come back too.
    sent = ~np.isnan(found.command_error).any(axis=1)
    assert sent.sum() == found.commands >= 40
    assert (found.command_error[sent] <= TOLERANCE["float32"] * spans).all()


@pytest.mark.parametrize(
    "change",
    [{"precision": "bfloat16"}, {"selector": "reference"}],
    ids=lambda change: next(iter(change.values())),
)
def test_other_ways_of_computing_it_agree(family, change):
    name, _ = family
    with Bag(DATA / name) as bag:
        result = replay(bag, open_session(replace(choices_for(name), **change)), "recorded")
    comparison = compare(result, load(DATA / f"{name}.recorded.npz"))
    assert comparison.passed, comparison.first
    assert comparison.error.max() > 0 or "selector" in change


def test_the_data_is_small_and_tells_nothing_of_the_machine_it_was_made_on():
    files = [f for f in DATA.rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) <= LARGEST
    for name in FAMILIES:
        with Bag(DATA / name) as bag:
            for message in bag.messages({t for t in bag.topics if "camera" not in t}):
                assert str(ROOT).encode() not in message.data
                assert b"/home/" not in message.data
