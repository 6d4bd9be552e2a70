# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a device can do, what a stage has to do, and how near the one comes to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from phyai_ros.engine.quantize import E4M3

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution")
_ATTENTION = "_scaled_dot_product"


def measure(device: torch.device) -> dict[str, float]:
    """Bytes a second of a large copy (read and written), and operations a second of the largest
    matrix product in bf16 and, where the device has it, FP8."""
    source = torch.randn(1 << 29, device=device)
    target = torch.empty_like(source)
    n = 8192
    square = torch.randn(n, n, device=device, dtype=torch.bfloat16)
    copied = least_seconds(lambda: target.copy_(source))
    found = {
        "roof_copy_TB_s": round(2 * source.numel() * 4 / copied / 1e12, 2),
        "roof_bf16_TFLOP_s": round(2 * n**3 / least_seconds(lambda: square @ square) / 1e12),
    }
    if torch.cuda.get_device_capability(device) >= (8, 9):
        small = square.to(E4M3)
        one = torch.ones((), device=device)

        def product() -> object:
            return torch._scaled_mm(
                small, small.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
                use_fast_accum=True,
            )  # fmt: skip

        found["roof_fp8_TFLOP_s"] = round(2 * n**3 / least_seconds(product) / 1e12)
    return found


def least_seconds(function: Callable[[], object], runs: int = 5) -> float:
    times = []
    for _ in range(runs + 2):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    return min(times[2:])


def _attention(q: Any, k: Any, v: Any, *args: Any, out_shape: Any = None, **options: Any) -> int:
    """Operations of attention with grouped heads, which torch's own counter refuses."""
    batch, heads, rows, d = q
    return int(2 * batch * heads * rows * k[2] * (d + v[3]))


_GROUPED = {
    getattr(torch.ops.aten, f"_scaled_dot_product_{name}"): _attention
    for name in ("flash_attention", "efficient_attention", "cudnn_attention")
}


class _Traffic(TorchDispatchMode):
    """Bytes of weights each time a product reads them, and of the keys and values of attention."""

    def __init__(self, model: Any):
        super().__init__()
        self._weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in _PRODUCTS:
            self.bytes += sum(
                a.numel() * a.element_size()
                for a in args
                if isinstance(a, torch.Tensor) and a.untyped_storage().data_ptr() in self._weights
            )
        elif name.startswith(_ATTENTION):
            self.bytes += sum(a.numel() * a.element_size() for a in args[1:3])
        return func(*args, **(kwargs or {}))


def costs(
    model: Any, stages: Callable[[Any], Iterator[tuple[str, Any]]], request: Any
) -> dict[str, dict[str, float]]:
    """stages: the runner's, of the reference path. -> stage -> operations of its products and
    attention (TFLOP) and the least it has to read (GB), of weights as they are stored."""
    found: dict[str, dict[str, float]] = {}
    with torch.no_grad():
        work = stages(request)
        while True:
            with (
                _Traffic(model) as traffic,
                FlopCounterMode(display=False, custom_mapping=_GROUPED) as counter,
            ):
                step = next(work, None)
            if step is None:
                return found
            found[step[0]] = {
                "TFLOP": counter.get_total_flops() / 1e12,
                "GB": traffic.bytes / 1e9,
            }


def fractions(
    cost: Mapping[str, Mapping[str, float]],
    milliseconds: Mapping[str, float],
    roofs: Mapping[str, float],
    fp8: bool = False,
) -> dict[str, dict[str, Any]]:
    """Stage -> the least time that its products or its reading would take at the roofs, which of
    the two bounds it, and the share of the roof that was reached."""
    rate = roofs["roof_fp8_TFLOP_s" if fp8 else "roof_bf16_TFLOP_s"]
    out = {}
    for stage, work in cost.items():
        products = 1e3 * work["TFLOP"] / rate
        reading = work["GB"] / roofs["roof_copy_TB_s"] / (2 if fp8 else 1)
        least = max(products, reading)
        out[stage] = {
            "TFLOP": round(work["TFLOP"], 3),
            "GB": round(work["GB"], 2),
            "roof_ms": round(least, 3),
            "bound": "products" if products > reading else "memory",
            "reached": round(least / milliseconds[stage], 3),
        }
    return out
