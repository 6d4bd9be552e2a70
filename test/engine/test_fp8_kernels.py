# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The FP8 kernels against their plain torch twins in float64, on fresh random inputs: on a GPU with
FP8 units, or in Triton's interpreter where TRITON_INTERPRET=1 is set."""

import pytest
import torch
from nearness import check

from phyai_ros.engine.kernels import (
    _triton,
    fp8_norm,
    fp8_rows,
    rope_cache,
)
from phyai_ros.engine.quantize import E4M3, E5M2, QuantizedRows, quantize_rows

CUDA = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)
DEVICE = torch.device("cuda" if CUDA else "cpu")
HALF = [torch.float16, torch.bfloat16] if CUDA else [torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 6e-3}
DEPENDENT = [False, True] if CUDA and _triton.dependent_launch(DEVICE) else [False]
pytestmark = pytest.mark.skipif(
    not _triton.usable(DEVICE), reason="needs Triton, and a GPU with FP8 or TRITON_INTERPRET=1"
)


def check_rows(found, expected):
    """Quantised the same but for numbers halfway between two neighbours; and in Triton's
    interpreter but for those whose rounding carries into the exponent, which it loses."""
    assert found.values.dtype == E4M3
    check(found.scale, expected.scale, 1e-4)
    same = found.values.view(torch.uint8) == expected.values.view(torch.uint8)
    if _triton.INTERPRETED:
        assert same.float().mean() > 0.9
        return
    assert same.float().mean() > 0.98
    check(found.dequantize(), expected.dequantize(), 1e-2)


@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_fp8_rows(rand, dependent, scaled, gated):
    rows, width = 9, 200
    x, bias = rand(rows, width * (2 if gated else 1)), None if gated else rand(width)
    if scaled:
        columns = rand(x.shape[1]).round().to(torch.int8)
        x = fp8_rows.Product(x, rand(rows).abs(), columns if gated else rand(x.shape[1]).abs())
    found = fp8_rows.fused(x, bias, "gelu_tanh", gated=gated, dependent=dependent)
    check_rows(found, fp8_rows.reference(x, bias, "gelu_tanh", gated=gated))


@pytest.mark.parametrize("scaled", [False, True])
def test_rows_of_no_scale(rand, scaled):
    """What is more than E5M2's largest is that; all else its nearest neighbour, but for numbers
    halfway between two."""
    rows, width = 9, 200
    x = rand(rows, 2 * width, scale=3.0)
    x[0] *= 1e4
    if scaled:
        columns = rand(2 * width).round().to(torch.int8)
        x = fp8_rows.Product(x, rand(rows).abs() + 0.1, columns)
    found = fp8_rows.fused(x, None, "gelu_tanh", gated=True, rows=E5M2)
    expected = fp8_rows.reference(x, None, "gelu_tanh", gated=True, rows=E5M2)
    assert found.scale is None
    assert found.values.dtype == E5M2
    assert expected.values.double().abs().max() == 57344.0
    same = found.values.view(torch.uint8) == expected.values.view(torch.uint8)
    assert same.float().mean() > (0.9 if _triton.INTERPRETED else 0.98)


def test_what_is_no_number_stays_none(rand):
    """Actions that are not finite are refused: nothing may make numbers of them on the way. In
    Triton's interpreter its conversion to 8 bits does."""
    x = rand(3, 64)
    x[1, 5] = torch.nan
    x[2, 3], x[2, 4] = torch.inf, -torch.inf
    kinds = (E4M3, E5M2) if not _triton.INTERPRETED else (E4M3,)
    for rows in kinds:
        found, expected = fp8_rows.fused(x, rows=rows), fp8_rows.reference(x, rows=rows)
        assert found.dequantize()[1].isnan().any()
        assert expected.dequantize()[1].isnan().any()
        assert not found.dequantize()[0].isnan().any()
    if E5M2 in kinds:
        assert found.dequantize()[2, 3:5].tolist() == [57344.0, -57344.0]


def test_a_row_of_zeros_stays_zero(rand):
    x = rand(3, 64)
    x[1] = 0
    for made in (fp8_rows.fused(x), quantize_rows(x)):
        assert not made.dequantize()[1].any()
        assert torch.isfinite(made.dequantize()).all()


@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("branch", ["none", "plain", "parts", "scaled", "columns"])
@pytest.mark.parametrize("dtype", [*HALF, E4M3])
@pytest.mark.parametrize(("kind", "extras"), [("rms", "s"), ("layer", "bst"), ("rms", "gst")])
def test_fp8_norm(rand, dependent, branch, dtype, kind, extras):
    rows, width = 7, 200
    x = rand(rows, width)
    given = {
        "none": None,
        "plain": rand(rows, width, dtype=torch.float16),
        "parts": rand(2, rows, width),
        "scaled": fp8_rows.Product(rand(rows, width), rand(rows).abs(), rand(width).abs()),
        "columns": fp8_rows.Product(rand(rows, width), None, rand(width).abs()),
    }[branch]
    vectors = {
        name: rand(width)
        for name, letter in (("bias", "b"), ("gate", "g"), ("scale", "s"), ("shift", "t"))
        if letter in extras and (branch != "none" or letter in "st")
    }
    twin = x.clone()
    options = {"kind": kind, "eps": 1e-6, "dtype": dtype, **vectors}
    expected = fp8_norm.reference(twin, given, **options)
    found = fp8_norm.fused(x, given, dependent=dependent, **options)
    check(x, twin, 1e-5)
    if dtype == E4M3:
        assert isinstance(found, QuantizedRows)
        check_rows(found, expected)
    else:
        check(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("biased", [False, True])
def test_rope_cache_of_a_raw_product(rand, dependent, biased):
    batch, length, heads, kv, d = 2, 5, 4, 2, 48
    width = (heads + 2 * kv) * d
    y = fp8_rows.Product(
        rand(batch * length, width, dtype=torch.float16), rand(batch * length).abs(),
        rand(width).abs(), rand(width) if biased else None,
    )  # fmt: skip
    angle = rand(batch, length, d // 2)
    cos, sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    found, expected = (
        [torch.zeros(batch, kv, length, d, device=DEVICE, dtype=t) for _ in "kv"]
        for t in (torch.float32, torch.float64)
    )
    want = rope_cache.reference(y, cos, sin, *expected, heads=heads)
    got = rope_cache.fused(y, cos, sin, *found, heads=heads, dependent=dependent)
    assert got is not None
    for one, other in zip((got, *found), (want, *expected), strict=True):
        check(one, other, 1e-5)
