# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Kernels whose blocks join partial sums in a cluster, on a CPU: the checks of their own tests."""

import pytest
import test_cluster_attention_cuda as attention
import test_cluster_product_cuda as product
import test_dit_product_cuda as dit
import torch
from emulated_gpu import Emulated, emulated, needs_compiler

from phyai_ros.engine.kernels.dit_product import Form

pytestmark = [needs_compiler, pytest.mark.slow]
__all__ = ["emulated"]
FP16, BF16 = torch.float16, torch.bfloat16


@pytest.fixture(params=[1, 2], ids="seed {}".format)
def rand(emulated, monkeypatch, request):
    for module in (attention, dit, product):
        monkeypatch.setattr(module, "DEVICE", torch.device("cpu"))
    monkeypatch.setattr(attention, "HEADS", 2)
    monkeypatch.setattr(Emulated, "seeds", (request.param,))
    torch.manual_seed(0)
    return lambda *shape, dtype=torch.float32, scale=1.0: (torch.randn(*shape) * scale).to(dtype)


@pytest.mark.parametrize(("dtype", "rows", "at"), [(BF16, 50, 816), (FP16, 8, 969), (FP16, 64, 64)])
def test_attention(rand, dtype, rows, at):
    attention.test_rows(rand, dtype, rows, at)


def test_attention_that_leaves_bytes(rand):
    attention.test_what_is_left_in_bytes_is_what_would_be_made_of_fragments(rand, 64, 50)
    attention.test_bytes_of_the_largest_values_are_the_largest(rand)


@pytest.mark.parametrize(
    "form",
    [
        Form(192, 1536, 2, 2, 96, 8, row_major=True),
        Form(96, 256, 1, 2, 48, row_major=True, fp8=True),
        Form(256, 1536, 2, 2, 128, 16, activation="gelu_tanh"),
        Form(128, 768, 1, 2, 64, part=24, fp8=True),
    ],
    ids=str,
)
def test_products_behind_a_layer_norm(rand, form):
    dit.test_products(rand, form, 41)


@pytest.mark.parametrize(
    "form",
    [
        Form(128, 1536, 4, 1, 64, residual=True, registers=160),
        Form(96, 256, 1, 2, 48, residual=True, fp8=True),
    ],
    ids=str,
)
def test_residual_products(rand, form):
    dit.test_residual_products_leave_the_stream_as_the_next_takes_it(rand, form, 41)


@pytest.mark.parametrize(
    "form",
    [
        product.Form(256, 256, 2, 2, 32, "gated", "rms", "gelu_tanh"),
        product.Form(320, 256, 2, 1, 32, "rope", "rms", d=64, heads=3, kv=1),
        product.Form(96, 768, 3, 2, 24, "residual"),
        product.Form(96, 768, 3, 2, 24, "residual", late=True),
    ],
    ids=str,
)
@pytest.mark.parametrize(("rows", "dtype"), [(50, FP16), (41, BF16), (1, FP16)])
def test_products_of_clusters(rand, form, rows, dtype):
    product.test_against_float64(form, rows, dtype)


@pytest.mark.parametrize(
    "form",
    [
        product.Form(256, 512, 2, 2, 32, "gated", "rms", "gelu_tanh", fp8=True),
        product.Form(320, 256, 2, 1, 32, "rope", "rms", d=64, heads=3, kv=1, fp8=True),
        product.Form(96, 768, 3, 1, 24, "residual", fp8=True, leaves="bytes"),
        product.Form(
            256,
            512,
            2,
            2,
            32,
            "gated",
            "rms",
            "gelu_tanh",
            fp8=True,
            takes="bytes",
            leaves="bytes",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [50, 1])
def test_products_of_e4m3_weights(rand, form, rows):
    product.test_against_float64(form, rows=rows, dtype=FP16)


def test_e5m2_at_its_edges(rand):
    product.test_halves_become_the_nearest_e5m2_or_the_largest()
    product.test_bytes_of_a_stream_are_the_nearest_or_the_largest()
    product.test_bytes_of_hidden_rows_are_no_larger_than_the_largest()


def test_e4m3_rows_of_any_size(rand):
    product.test_e5m2_rows_of_any_size()
    dit.test_e4m3_rows_of_any_size(rand)
