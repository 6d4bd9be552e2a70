# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rows out of a hidden layer as a product of halves: by the launches' twins, and on a Hopper GPU
against float64."""

import cluster_twins
import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper  # noqa: F401, ``rand`` draws on DEVICE

from phyai_ros.engine.kernels import hidden_layer
from phyai_ros.engine.kernels.fragments import COPY, from_fragments, from_groups, mean_square
from phyai_ros.engine.kernels.hidden_layer import HiddenLayer

TOLERANCE = {torch.float16: 2e-5, torch.bfloat16: 4e-5}


class Case:
    """x, the first layer, the second, and rows that are given."""

    def __init__(self, rand, rows, given, width):
        self.x = rand(rows - given, 32)
        self.hidden = rand(width, 32, scale=32**-0.5), rand(width)
        self.second = rand(width, width, scale=width**-0.5), rand(width)
        self.given, self.rows, self.scale = rand(given, width), rows, rand(width)

    def run(self, dtype, dependent=False):
        layer = HiddenLayer(
            self.second, dtype, rows=self.rows, given=len(self.given), dependent=dependent
        )
        return layer(self.x, self.hidden, layer.before(self.given), self.scale)

    def check(self, stream, copy, squares):
        wide = [tuple(t.double() for t in pair) for pair in (self.hidden, self.second)]
        expected = hidden_layer.reference(self.x.double(), *wide, self.given.double())
        found = from_groups(stream, self.rows)
        nearness.check(found, expected, TOLERANCE[copy.dtype])
        assert torch.equal(found[: len(self.given)], self.given)  # as they are
        copied = from_fragments(copy, self.rows)
        assert torch.equal(copied, (found * COPY * self.scale).to(copy.dtype))
        nearness.check(mean_square(squares, self.rows), found.square().mean(1), 1e-6)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(("rows", "given"), [(51, 1), (64, 1), (2, 1), (50, 0), (40, 3)])
def test_by_the_launches_twins(rand, monkeypatch, dtype, rows, given):
    cluster_twins.put(monkeypatch)
    case = Case(rand, rows, given, 128)
    case.check(*case.run(dtype))


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(("rows", "given"), [(51, 1), (64, 1), (2, 1), (50, 0), (40, 3)])
def test_against_float64(rand, dtype, dependent, rows, given):
    case = Case(rand, rows, given, 1024)
    case.check(*case.run(dtype, dependent))


def test_sizes_that_do_not_fit_are_refused():
    assert hidden_layer.fits(torch.zeros(1024, 1024))
    assert not hidden_layer.fits(torch.zeros(1024, 1024, dtype=torch.float16))
    odd = torch.zeros(1000, 1000)
    assert not hidden_layer.fits(odd)
    with pytest.raises(ValueError, match="no kernel for a second layer"):
        HiddenLayer((odd, odd[0]), torch.float16, rows=51, given=1, dependent=False)
