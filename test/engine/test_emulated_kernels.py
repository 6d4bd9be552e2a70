# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Kernels whose warpgroups hand tiles to each other, on a CPU: addresses, swizzles, fragments and
the order of their barriers, with copies and threads in random order."""

import nearness
import pytest
import torch
from emulated_gpu import emulated, needs_compiler

from phyai_ros.engine.kernels import attention, gated_product, prefix_attention
from phyai_ros.engine.kernels.gated_linear import reference
from phyai_ros.engine.quantize import E5M2, QuantizedWeight, in_e5m2, quantize_rows

pytestmark = [needs_compiler, pytest.mark.slow]
__all__ = ["emulated"]
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}


def rand(*shape, dtype=torch.bfloat16, scale=1.0):
    return (torch.randn(*shape) * scale).to(dtype)


@pytest.mark.parametrize(
    ("form", "batch", "length", "keys", "dtype"),
    [
        (prefix_attention.Form(0, 1), 1, 20, 700, torch.bfloat16),
        (prefix_attention.Form(8, 0), 2, 9, 64, torch.float16),
        (prefix_attention.Form(4, 0), 1, 16, 449, torch.bfloat16),
        (prefix_attention.Form(8, 1), 1, 3, 333, torch.bfloat16),
    ],
)
def test_attention(emulated, form, batch, length, keys, dtype):
    q = rand(batch, length, 8, 256, dtype=dtype, scale=2.0)
    key, value = (rand(batch, 1, keys, 256, dtype=dtype) for _ in range(2))
    exists = torch.rand(batch, keys) > 0.3
    exists[0, : keys // 2] = False  # nothing for the first block of a cluster
    for mask in (exists, None):
        found = prefix_attention.fused(q, key, value, exists=mask, form=form)
        wide = (t.double() for t in (q, key, value))
        nearness.check(found, attention.reference(*wide, exists=mask), TOLERANCE[dtype])


def test_attention_to_no_key(emulated):
    q, key = rand(1, 2, 8, 256), rand(1, 1, 70, 256)
    exists = torch.zeros(1, 70, dtype=torch.bool)
    form = prefix_attention.Form()
    assert (prefix_attention.fused(q, key, key, exists=exists, form=form) == 0).all()


@pytest.mark.parametrize(
    ("form", "rows", "activation", "dtype"),
    [
        (gated_product.Form(1, 0), 203, "gelu_tanh", torch.bfloat16),
        (gated_product.Form(2, 1), 203, "gelu_tanh", torch.bfloat16),
        (gated_product.Form(2, 2), 417, "silu", torch.float16),
        (gated_product.Form(2, 0), 130, "gelu_tanh", torch.float16),
    ],
)
def test_gated_product(emulated, form, rows, activation, dtype):
    x, weight = rand(rows, 384, dtype=dtype, scale=3.0), rand(1024, 384, dtype=dtype, scale=0.1)
    found = gated_product.fused(x, weight, activation, form=form)
    expected = reference(x.double(), weight.double(), activation)
    nearness.check(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("cluster", [1, 2])
def test_gated_product_of_e4m3(emulated, cluster):
    form = gated_product.Form(cluster, 1)
    x = quantize_rows(torch.randn(203, 768) * torch.rand(203, 1))
    weight = QuantizedWeight.of(torch.randn(512, 768) * 0.1 * torch.rand(512, 1))
    found = gated_product.fused_fp8(x, weight, "gelu_tanh", form=form)
    expected = gated_product.reference_fp8(x, weight, "gelu_tanh")
    nearness.check(found, expected, TOLERANCE[torch.bfloat16])


@pytest.mark.parametrize(("form", "rows"), [((1, 0), 203), ((2, 1), 203), ((2, 0), 136)], ids=str)
def test_gated_product_that_leaves_e5m2(emulated, form, rows):
    """Numbers of every size that E5M2 has, but halfway between two neighbours, where the order of a
    sum decides; what is more than the largest is the largest."""
    x = quantize_rows(torch.randn(rows, 768) * 10.0 ** (4 * torch.rand(rows, 1) - 2))
    weight = QuantizedWeight.of(torch.randn(1024, 768) * 2.0 ** (8 * torch.rand(1024, 1) - 6))
    found = gated_product.fused_fp8(
        x, weight, "gelu_tanh", form=gated_product.Form(*form), leaves=E5M2
    )
    expected = in_e5m2(gated_product.reference_fp8(x, weight, "gelu_tanh"))
    assert found.dtype == E5M2
    same = found.view(torch.uint8) == expected.view(torch.uint8)
    assert same.float().mean() > 0.999
    nearest = (found.double() - expected.double()).abs() <= 0.26 * expected.double().abs() + 2e-5
    assert nearest.all()
    assert expected.double().abs().max() == 57344.0
