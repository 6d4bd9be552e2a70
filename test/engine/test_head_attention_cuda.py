# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of a block a head against its float64 twin. Needs a Hopper GPU."""

import nearness
import pytest
import torch
from hopper import DEVICE, check_early_attention, needs_hopper

from phyai_ros.engine.kernels import cluster_product, head_attention, regroup
from phyai_ros.engine.kernels.fragments import from_fragments, into_fragments
from phyai_ros.engine.kernels.head_attention import HeadAttention, Queries, Turn

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}


class Case:
    """Queries, keys and values are columns of wider rows; what nobody may look at is poison."""

    def __init__(
        self, rand, keys, rows=41, *, d=48, heads=32, key_heads=None, dtype=torch.bfloat16,
        missing=0.0, scale=1.0, constant=True,
    ):  # fmt: skip
        self.d, self.heads, self.constant = d, heads, constant
        own = (key_heads or heads) * d
        self.given = rand(keys + 3, 2 * own + 8, dtype=dtype)
        self.key, self.value = self.given[:keys, :own], self.given[:keys, own : 2 * own]
        self.given[keys:] = torch.nan
        self.given[:, 2 * own :] = torch.nan
        queries = rand(rows + 1, heads * d + 16, dtype=dtype, scale=scale)
        queries[rows:] = torch.nan
        queries[:, heads * d :] = torch.nan
        self.q = queries[:rows, : heads * d]
        self.exists = None
        if missing:
            self.exists = torch.rand(keys, device=DEVICE) >= missing
        self.out = torch.full((heads * d // 16, 4, 32, 8), torch.nan, dtype=dtype, device=DEVICE)

    def kernel(self, **options):
        return HeadAttention(self.key, self.value, self.d, constant=self.constant, **options)

    def check(self, out=None, **options):
        rows = len(self.q)
        found = from_fragments(self.out if out is None else out, rows)
        wide = (t.double() for t in (self.q, self.key, self.value))
        twin = head_attention.reference(*wide, self.d, exists=self.exists, **options)
        expected = from_fragments(twin, rows)
        for head in range(self.heads):
            columns = slice(head * self.d, (head + 1) * self.d)
            nearness.check(found[:, columns], expected[:, columns], TOLERANCE[self.out.dtype])


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows", [1, 8, 9, 41, 64])
@pytest.mark.parametrize("keys", [41, 160])
def test_rows(rand, dtype, rows, keys):
    case = Case(rand, keys, rows, dtype=dtype, missing=0.2)
    case.kernel()(case.q, out=case.out, exists=case.exists)
    case.check()


@needs_hopper
@pytest.mark.parametrize("missing", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("keys", [1, 15, 16, 17, 63, 65, 151, 170, 257, 500])
def test_keys(rand, keys, missing):
    case = Case(rand, keys, missing=missing)
    if missing:
        case.exists[keys // 2] = True
    case.kernel()(case.q, out=case.out, exists=case.exists)
    case.check()


@needs_hopper
@pytest.mark.parametrize("d", [16, 32, 48, 64])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dependent", [False, True])
def test_heads_that_share_keys(rand, d, constant, dependent):
    case = Case(rand, 100, d=d, heads=15, key_heads=5, missing=0.1, constant=constant)
    case.kernel(dependent=dependent)(case.q, out=case.out, exists=case.exists)
    case.check()


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("prefix", [1, 70, 241, 448])
@pytest.mark.parametrize("rows", [1, 9, 50, 64])
def test_own_keys_behind_a_prefix(rand, dtype, causal, prefix, rows):
    """Queries as a product leaves them; those of missing rows are poison."""
    case = Case(
        rand, prefix + rows, rows, d=64, heads=15, key_heads=5, dtype=dtype, missing=0.3
    )  # fmt: skip
    case.exists[prefix:] = True
    full = torch.full((64, 15 * 64), torch.nan, dtype=dtype, device=DEVICE)
    full[:rows] = case.q
    kernel = case.kernel(own=rows, causal=causal, fragments=True)
    kernel(into_fragments(full), out=case.out, rows=rows, exists=case.exists)
    case.check(causal=causal)


@needs_hopper
def test_no_key_gives_zeros(rand):
    case = Case(rand, 90, missing=0.5)
    case.exists[:] = False
    case.kernel()(case.q, out=case.out, exists=case.exists)
    assert (from_fragments(case.out, 41) == 0).all()


@needs_hopper
def test_sharp_attention(rand):
    case = Case(rand, 160, scale=30.0)
    case.kernel()(case.q, out=case.out, exists=case.exists)
    case.check()


@needs_hopper
def test_the_same_bits_in_a_chain_of_early_launches(rand):
    """Queries, keys and values come from the kernels right in front, in a captured graph."""
    case = Case(rand, 41, constant=False)
    kernel = case.kernel()
    live = (case.q, case.key, case.value)
    check_early_attention(case, live, lambda out: kernel(case.q, out=out), 41)


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(
    ("rows", "keys", "width", "d"),
    [(50, 241, 768, 64), (1, 64, 768, 64), (64, 448, 768, 64), (41, 160, 512, 48)],
)
def test_queries_made_of_a_stream(rand, dtype, dependent, rows, keys, width, d):
    case = Case(rand, keys, rows, d=d, heads=15, key_heads=5, dtype=dtype, missing=0.1)
    _, copy, _ = regroup.reference_into(rand(rows, width), dtype)
    weight = rand(15 * d, width, dtype=dtype, scale=width**-0.5)
    queries = Queries(1 + rand(width, scale=0.2), weight)
    angle = rand(rows, d // 2)
    turn = Turn(*(torch.cat([f, f], -1) for f in (angle.cos(), angle.sin())), 1e-5)
    kernel = case.kernel(queries=queries, dependent=dependent)
    kernel(copy, out=case.out, rows=rows, exists=case.exists, turn=turn)
    case.q = head_attention.reference_queries(copy.double(), rows, queries, turn, d)
    case.check()
    with pytest.raises(ValueError, match="a stream of"):
        kernel(copy, out=case.out, rows=rows, exists=case.exists)


def test_the_twin_of_queries_is_norm_product_and_rotation():
    """Against the twin of the launch that it stands for."""
    rows, width, d, heads = 5, 64, 16, 3
    x = torch.randn(rows, width).double()
    queries = Queries(torch.rand(width), torch.randn(heads * d, width).double())
    _, copy, _ = regroup.reference_into(x, torch.float64)
    _, scaled, squares = regroup.reference_into(x, torch.float64, queries.scale)
    angle = torch.randn(rows, d // 2)
    cos, sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    found = head_attention.reference_queries(copy, rows, queries, Turn(cos, sin, 1e-3), d)
    form = cluster_product.Form(heads * d, width, 1, 1, 8, "rope", "rms", d=d, heads=heads, kv=0)
    expected, *_ = cluster_product.reference(
        scaled, queries.weight, form, rows=rows, squares=squares, cos=cos, sin=sin, eps=1e-3
    )
    torch.testing.assert_close(found, expected)


def test_sizes_that_do_not_fit_are_refused():
    key = torch.zeros(90, 96, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"keys \(90, 96\) torch.float16 of 48 on cpu"):
        HeadAttention(key, key, 48, constant=True)
