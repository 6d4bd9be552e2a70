# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention in one launch of clusters against its float64 twin. Needs a Hopper GPU."""

import nearness
import pytest
import torch
from hopper import DEVICE, check_early_attention, needs_hopper

from phyai_ros.engine.kernels import cluster_attention
from phyai_ros.engine.kernels.cluster_attention import ClusterAttention
from phyai_ros.engine.kernels.e4m3 import from_bytes
from phyai_ros.engine.kernels.fragments import from_fragments, into_fragments
from phyai_ros.engine.quantize import in_e5m2

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
HEADS = 8


class Case:
    """Random queries and one layer's cache; what a kernel may not look at is poison."""

    def __init__(
        self, rand, at, rows, *, d=256, dtype=torch.float16, missing=0.0, scale=1.0, alone=False
    ):
        self.at, self.rows, self.d, self.alone = at, rows, d, alone
        q = rand(rows, HEADS * d, dtype=dtype, scale=scale)
        self.q = into_fragments(torch.cat([q, q.new_full((64 - rows, HEADS * d), torch.nan)]))
        self.key, self.value = (rand(at + rows + 70, d, dtype=dtype) for _ in range(2))
        for t in (self.key, self.value):
            t[at + rows :] = torch.nan
        self.exists = torch.rand(at + rows, device=DEVICE) >= missing
        self.exists[at:] = True
        self.out = torch.full_like(self.q, torch.nan)

    def kernel(self, **options):
        return ClusterAttention(
            self.key, self.value, at=self.at, rows=self.rows, alone=self.alone, **options
        )

    def expected(self):
        wide = (t.double() for t in (self.q, self.key, self.value))
        fragments = cluster_attention.reference(
            *wide, self.exists, at=self.at, rows=self.rows, alone=self.alone
        )
        return from_fragments(fragments, self.rows)

    def check(self, out=None):
        found = from_fragments(self.out if out is None else out, self.rows)
        expected = self.expected()
        for head in range(HEADS):
            columns = slice(head * self.d, (head + 1) * self.d)
            nearness.check(found[:, columns], expected[:, columns], TOLERANCE[self.q.dtype])
            if self.alone:  # one row is too little of all for its error to show
                one, other = found[:1, columns], expected[:1, columns]
                nearness.check(one, other, TOLERANCE[self.q.dtype])


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows", [1, 8, 9, 17, 50, 51, 64])
@pytest.mark.parametrize("at", [816, 969])
def test_rows(rand, dtype, rows, at):
    case = Case(rand, at, rows, dtype=dtype, missing=0.2)
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows", [1, 2, 9, 51, 64])
@pytest.mark.parametrize(("at", "d"), [(5, 256), (816, 256), (816, 128), (300, 64)])
def test_a_first_query_that_sees_no_own_key_but_its_own(rand, dtype, rows, at, d):
    """Large scores, so that one key too many would be seen."""
    case = Case(rand, at, rows, d=d, dtype=dtype, missing=0.2, scale=3.0, alone=True)
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()


@needs_hopper
def test_a_first_query_alone_with_nothing(rand):
    case = Case(rand, 816, 51, alone=True)
    case.exists[:816] = False
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()
    own = from_fragments(case.out, 51)[0].view(HEADS, -1)
    nearness.check(own, case.value[816].expand(HEADS, -1), 1e-3)


@needs_hopper
@pytest.mark.parametrize("missing", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("at", [1, 15, 63, 64, 65, 447, 449, 560, 817, 1007, 1119, 1120])
def test_prefix(rand, at, missing):
    case = Case(rand, at, 50, missing=missing)
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()


@needs_hopper
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("dependent", [False, True])
def test_heads_of_other_widths(rand, d, dependent):
    case = Case(rand, 300, 41, d=d, missing=0.1)
    case.kernel(dependent=dependent)(case.q, case.exists, out=case.out)
    case.check()


@needs_hopper
def test_a_prefix_that_does_not_exist(rand):
    case = Case(rand, 816, 50, missing=0.5)
    case.exists[:816] = False
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()


@needs_hopper
def test_no_key_gives_zeros(rand):
    case = Case(rand, 816, 50, missing=0.5)
    case.exists[:] = False
    case.kernel()(case.q, case.exists, out=case.out)
    assert (from_fragments(case.out, 50) == 0).all()


@needs_hopper
def test_a_late_launch_gives_the_same_bits(rand):
    case = Case(rand, 816, 50, missing=0.2)
    case.kernel()(case.q, case.exists, out=case.out)
    out = torch.full_like(case.out, torch.nan)
    case.kernel(late=True)(case.q, case.exists, out=out)
    assert torch.equal(from_fragments(out, 50), from_fragments(case.out, 50))


@needs_hopper
@pytest.mark.parametrize("rows", [1, 9, 50, 64])
@pytest.mark.parametrize("at", [64, 816])
def test_what_is_left_in_bytes_is_what_would_be_made_of_fragments(rand, at, rows):
    case = Case(rand, at, rows, missing=0.2)
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()
    out = torch.zeros(HEADS * case.d // 32, 128, 16, dtype=torch.uint8, device=DEVICE)
    case.kernel(leaves="bytes")(case.q, case.exists, out=out)
    halves = from_fragments(case.out, rows)
    found, expected = from_bytes(out, rows), in_e5m2(halves).double()
    # Rounded once: a half in the middle of two has lost on which side of it the number was.
    middle = halves.view(torch.int16) & 0xFF == 0x80
    assert torch.equal(found[~middle], expected[~middle])
    assert ((found - expected).abs() <= 0.25 * halves.abs().double() + 2.0**-16).all()


@needs_hopper
def test_bytes_of_the_largest_values_are_the_largest(rand):
    """Halves from 61440 on are nearer to the infinity of E5M2 than to its largest number."""
    case = Case(rand, 64, 50)
    edges = torch.tensor([50000, 60000, 61440, 65000, -61440, -65000, 1e-5, 6e-6], device=DEVICE)
    for t in (case.key, case.value):
        t[: case.at + case.rows] = edges.half().repeat(case.d // len(edges))
    out = torch.zeros(HEADS * case.d // 32, 128, 16, dtype=torch.uint8, device=DEVICE)
    case.q = into_fragments(torch.zeros(64, HEADS * case.d, dtype=torch.float16, device=DEVICE))
    case.kernel(leaves="bytes")(case.q, case.exists, out=out)
    expected = torch.tensor([49152, 57344, 57344, 57344, -57344, -57344, 2.0**-16, 0])
    found = from_bytes(out, case.rows).cpu()
    assert torch.equal(found, expected.double().repeat(50, HEADS * case.d // len(edges)))


@needs_hopper
def test_sharp_attention(rand):
    """Scores far apart: what one rank has outweighs all others."""
    case = Case(rand, 816, 50, scale=30.0)
    case.kernel()(case.q, case.exists, out=case.out)
    case.check()


@needs_hopper
@pytest.mark.parametrize("alone", [False, True])
def test_the_same_bits_in_a_chain_of_early_launches(rand, alone):
    """Own keys, values and queries come from the kernels right in front, in a captured graph."""
    case = Case(rand, 816, 50, missing=0.1, alone=alone)
    kernel, own = case.kernel(), slice(case.at, case.at + case.rows)
    live = (case.q, case.key[own], case.value[own])
    check_early_attention(case, live, lambda out: kernel(case.q, case.exists, out=out), case.rows)


def test_sizes_that_do_not_fit_are_refused():
    key = torch.zeros(900, 256, dtype=torch.float16)
    with pytest.raises(ValueError, match="behind 816 keys on cpu"):
        ClusterAttention(key, key, at=816, rows=50)


def test_keys_are_shared_in_sixteens():
    for at in range(1, cluster_attention.LONGEST_PREFIX + 1):
        keys = cluster_attention.keys_a_rank(at)
        assert keys % 16 == 0
        assert 64 <= keys <= 160
        assert 7 * keys >= at
