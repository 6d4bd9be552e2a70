# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every fixture there is, from raw observation to robot units, whatever its dimensions and names.

PHYAI_FIXTURES: a directory of fixtures (config.json and cases.json side by side, as in the golden
ones), or one fixture; several with a colon between. Default: the golden ones.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import GOLDEN

from phyai_ros.engine.policy import load_policy
from phyai_ros.tools import check_inputs, check_rows

FLOAT32, OWN_BFLOAT16 = 1e-5, 1.25


def directories() -> list[Path]:
    places = [Path(p) for p in os.environ.get("PHYAI_FIXTURES", str(GOLDEN)).split(":")]
    both = [d for p in places for d in (p, *sorted(p.glob("*"))) if (d / "config.json").is_file()]
    return [d for d in both if (d / "cases.json").is_file() and end_to_end(d)]


def end_to_end(directory: Path) -> bool:
    listed = json.loads((directory / "cases.json").read_text())["cases"]
    names = {name for case in listed for name in case["tensors"]}
    return bool(names & {"e2e.state", "rollout.state"})


@pytest.fixture(scope="module", params=directories(), ids=lambda d: d.name)
def fixture(request):
    """(function of an embodiment and a dtype that loads, the recorded requests)"""
    loaded = {}

    def of(tag, dtype="float32"):
        key = tag, dtype
        if key not in loaded:
            loaded[key] = load_policy(request.param, embodiment=tag, dtype=dtype)
        return loaded[key]

    return of, check_inputs.recorded(request.param, lambda tag: of(tag).spec)


def test_robot_units(fixture):
    of, recorded = fixture
    for case in recorded:
        policy = of(case.embodiment)
        chunk = policy.infer(case.observation, case.noise)
        found = chunk.actions[: len(case.expected)]
        assert check_rows.relative(found, case.expected) < FLOAT32, case.name
        if case.normalised is not None:
            rows, columns = case.normalised.shape
            error = check_rows.relative(chunk.normalised[:rows, :columns], case.normalised)
            assert error < FLOAT32, case.name


def test_a_request_alone_and_among_others(fixture):
    of, recorded = fixture
    for tag in dict.fromkeys(case.embodiment for case in recorded):
        own = [case for case in recorded if case.embodiment == tag][:4]
        noise = None if own[0].noise is None else torch.stack([case.noise for case in own])
        together = of(tag).infer_batch([case.observation for case in own], noise)
        for case, chunk in zip(own, together, strict=True):
            found = chunk.actions[: len(case.expected)]
            assert check_rows.relative(found, case.expected) < check_rows.BATCHED, case.name


def test_bfloat16_is_no_worse_than_the_reference(fixture):
    of, recorded = fixture
    judged = [case for case in recorded if case.own_error and case.normalised is not None]
    if not judged:
        pytest.skip("the fixture records no bfloat16 error of the reference")
    for case in judged:
        rows, columns = case.normalised.shape
        chunk = of(case.embodiment, "bfloat16").infer(case.observation, case.noise)
        error = np.abs(chunk.normalised[:rows, :columns] - case.normalised).max()
        assert 0 < error <= OWN_BFLOAT16 * case.own_error, case.name


def test_there_are_fixtures_where_the_golden_ones_are():
    assert len(directories()) >= 9 or not GOLDEN.is_dir() or "PHYAI_FIXTURES" in os.environ
