# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Products whose depth is split, by the library."""

import pytest
import torch

from phyai_ros.engine.layers import split_library
from phyai_ros.engine.layers.select import FastOperators


def test_parts_are_shares_of_the_depth():
    x, weight = torch.randn(5, 48).double(), torch.randn(7, 48).double()
    for count in (1, 2, 4):
        made = split_library.parts(x, weight, count)
        assert made.shape == (count, 5, 7)
        torch.testing.assert_close(made.sum(0), x @ weight.t())
        share = 48 // count
        torch.testing.assert_close(made[0], x[:, :share] @ weight[:, :share].t())


@pytest.mark.parametrize(
    ("k", "dtype", "names"),
    [
        (16384, torch.bfloat16, ["parts 2", "parts 4"]), (2048, torch.bfloat16, ["parts 2"]),
        (1152, torch.bfloat16, []), (16384, torch.float32, []), (2080, torch.float16, []),
    ],
)  # fmt: skip
def test_what_may_be_split(k, dtype, names):
    x, weight = torch.zeros(3, k, dtype=dtype), torch.zeros(2, k, dtype=dtype)
    assert list(split_library.fitting(x, weight)) == names


@pytest.mark.parametrize("choice", ["library", "parts 2", None])
def test_a_branch_by_the_table(monkeypatch, choice):
    monkeypatch.setattr(FastOperators, "__init__", lambda self: None)
    ops = FastOperators()
    key = "branch 70x8x2048 float16"
    ops.table = type("Table", (), {"choices": {} if choice is None else {key: choice}})()
    ops.dependent = ops._tuning = False
    x, weight = torch.randn(70, 2048).half(), torch.randn(8, 2048).half() / 32
    found = ops.branch(x, weight)
    assert found.shape == ((2, 70, 8) if choice == "parts 2" else (70, 8))
    whole = found.float() if found.ndim == 2 else found.float().sum(0)
    torch.testing.assert_close(whole, (x.double() @ weight.t().double()).float(), atol=3e-3, rtol=0)
