# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Layers of a diffusion transformer for the tests of its kernels: random ones, and the forms of
GR00T's."""

import torch

from phyai_ros.engine.kernels import dit_layers
from phyai_ros.engine.kernels.dit_layers import Layer
from phyai_ros.engine.quantize import QuantizedWeight

BF16 = torch.bfloat16
EPS = 1e-5


def published(fp8=False):
    """Of two of GR00T's layers, and its last projection."""

    def pair(n, k, fp8=False):
        weight, bias = (torch.empty(shape, dtype=BF16, device="meta") for shape in ((n, k), (n,)))
        return QuantizedWeight.of(weight) if fp8 else weight, bias

    rest = pair(1536, 1536), pair(6144, 1536, fp8), pair(1536, 6144, fp8)
    layers = [Layer(pair(1536, 1536), *rest), Layer(pair(4608, 1536, fp8), *rest)]
    return layers, pair(1024, 1536)


USED = {fp8: dit_layers.forms(*published(fp8)) for fp8 in (False, True)}


def rows_of(rand, rows, width):
    """Columns of very different size, and a mean."""
    return rand(rows, width) * (1 + 5 * rand(width).abs()) + rand(1, width) + 0.5


def linear(rand, n, k, fp8=False):
    weight, bias = rand(n, k, scale=k**-0.5, dtype=BF16), rand(n, dtype=BF16)
    return QuantizedWeight.of(weight) if fp8 else weight, bias
