# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The launches of an expert in clusters by their kernels' twins, on any device and in any dtype: as
the kernels do, they add up in float32 or wider and round what they leave."""

import torch

from phyai_ros.engine.kernels import (
    cluster_attention,
    cluster_product,
    gemma_expert,
    hidden_layer,
    regroup,
    split_linear,
    stream_linear,
)
from phyai_ros.engine.kernels.e4m3 import in_bytes
from phyai_ros.engine.kernels.fragments import (
    ROWS,
    from_fragments,
    into_fragments,
    into_groups,
    into_squares,
)


class ProductTwin:
    def __init__(self, weight, form, *, dependent):
        self.weight, self.form = weight, form

    def __call__(
        self, source, *, rows, out, key=None, value=None, x=None, old=None, squares=None, **given
    ):
        assert (source.dtype == torch.uint8) == bool(self.form.takes)
        wide = source.float() if source.dtype.itemsize == 2 else source
        before = x if old is None else old
        if self.form.norm:
            given["squares"] = squares
        found = cluster_product.reference(
            wide, self.weight, self.form, rows=rows, x=before, **given
        )
        if self.form.epilogue == "residual":
            x.copy_(into_groups(found[0]))
            out.copy_(_in_order(found[1], self.form))
            squares.copy_(into_squares(found[0]))
            return
        out.copy_(_in_order(found[0], self.form))
        if self.form.epilogue == "rope":
            key[:rows], value[:rows] = found[1:]


def _in_order(rows, form):
    if not form.leaves:
        return into_fragments(rows)
    return in_bytes(torch.cat([rows, rows.new_zeros(ROWS - len(rows), rows.shape[1])]))


class AttentionTwin:
    def __init__(self, key, value, *, at, rows, alone, leaves, late, dependent):
        self.cache, self.sizes = (key, value), {"at": at, "rows": rows, "alone": alone}
        self.leaves = leaves

    def __call__(self, q, exists, *, out):
        found = cluster_attention.reference(q, *self.cache, exists, **self.sizes)
        assert (out.dtype == torch.uint8) == bool(self.leaves)
        out.copy_(in_bytes(from_fragments(found, ROWS)) if self.leaves else found)


def _rows(x, weight, bias, *, out, first, dependent):
    out.copy_(split_linear.reference_rows(x, weight, bias, out.dtype, first))


def put(monkeypatch):
    """In place of the kernels, which then serve heads of any width."""
    for module in (gemma_expert, hidden_layer):
        monkeypatch.setattr(module, "ClusterProduct", ProductTwin)
    monkeypatch.setattr(gemma_expert, "ClusterAttention", AttentionTwin)
    monkeypatch.setattr(cluster_attention, "fits", lambda *_: True)

    def no_options(twin):
        return lambda *given, dependent, **options: twin(*given, **options)

    for module in (regroup, stream_linear):
        monkeypatch.setattr(module, "fused_into", no_options(module.reference_into))
    monkeypatch.setattr(stream_linear, "fused_out", no_options(stream_linear.reference_out))
    monkeypatch.setattr(split_linear, "fused_rows", _rows)
