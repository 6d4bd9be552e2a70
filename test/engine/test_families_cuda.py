# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every family on a CUDA device: the recorded requests of its fixture in float32 and bfloat16, and
``phyai-ros check`` over the cached and the captured paths."""

import pytest
import torch
from golden import GOLDEN, needs_golden

from phyai_ros.engine.policy import load_policy
from phyai_ros.tools import check_inputs, check_rows

pytestmark = [
    needs_golden,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
FIXTURES = (
    "pi0", "pi05", "pi0_openpi", "pi05_openpi", "smolvla", "act", "diffusion", "diffusion_gn",
    "groot_n17",
)  # fmt: skip
OWN_BF16 = ("pi0", "pi05", "smolvla", "groot_n17")
"""Fixtures that record the reference's own bfloat16 error."""


def rows_of(fixture, precision):
    if not (GOLDEN / fixture).is_dir():
        pytest.skip(f"no fixture {fixture}")
    policies = {}

    def of(embodiment):
        if embodiment not in policies:
            policies[embodiment] = load_policy(
                GOLDEN / fixture, embodiment=embodiment, device="cuda", dtype=precision
            )
        return policies[embodiment]

    cases = check_inputs.recorded(GOLDEN / fixture, lambda tag: of(tag).spec)
    return list(check_rows.fixture(cases, of, precision)), of


def told(rows):
    return "\n".join(
        f"{r.check} {r.detail}: {r.error} {r.rule} {r.limit} {r.note}" for r in rows if not r.passed
    )


@pytest.mark.parametrize("fixture", FIXTURES)
def test_recorded_requests_in_float32(fixture):
    rows, _ = rows_of(fixture, "float32")
    assert rows
    assert all(row.passed for row in rows), told(rows)


@pytest.mark.parametrize("fixture", OWN_BF16)
def test_recorded_requests_in_bfloat16(fixture):
    """Off by no more than 1.25 times the reference's own bfloat16 error."""
    rows, _ = rows_of(fixture, "bfloat16")
    measured = [row for row in rows if row.error is not None]
    assert measured
    assert all(row.passed for row in rows), told(rows)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_check_passes_on_every_path_of_a_gpu(fixture):
    if not (GOLDEN / fixture).is_dir():
        pytest.skip(f"no fixture {fixture}")
    tags = check_inputs.embodiments(GOLDEN / fixture)
    tag = tags[0] if tags else None
    policy = load_policy(GOLDEN / fixture, embodiment=tag, device="cuda")
    rows = [
        *check_rows.fixed_inputs(policy, None, (1, 2, 8)),
        *check_rows.conditions(policy),
    ]
    assert policy.runner.replayed > 0
    assert any("graphed" in row.detail for row in rows)
    assert all(row.passed for row in rows), told(rows)
