# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Candidates of many rows in CUDA C++ for Hopper, beside the selector's others, as long as compiler
and driver take them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from phyai_ros.engine.kernels import gated_product, prefix_attention
from phyai_ros.engine.kernels._cuda import CudaError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_GATED = {
    f"hopper {f.cluster}x{f.lag}": f
    for f in (
        gated_product.Form(2, 1), gated_product.Form(2, 0), gated_product.Form(2, 2),
        gated_product.Form(1, 1),
    )
}  # fmt: skip
_ATTENTION = {
    f"hopper {f.held}x{f.turns}": f
    for f in map(prefix_attention.Form, (0, 0, 4, 8, 8), (1, 0, 1, 1, 0))
}
_MANY = 512
"""Rows, of attention (token, head), from which there are tiles enough to be worth measuring."""


class Hopper:
    def __init__(self) -> None:
        self._refused = False

    def gated_forms(self, x: torch.Tensor, weight: torch.Tensor) -> list[str]:
        many = x.shape[0] >= _MANY and gated_product.fits(x, weight)
        return list(_GATED) if many else []

    def attention_forms(self, q: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> list[str]:
        many = q.ndim == 4 and q.shape[1] * q.shape[2] >= _MANY
        return list(_ATTENTION) if many and prefix_attention.fits(q, key, value) else []

    @staticmethod
    def gated(choice: str, *given: Any, **options: Any) -> torch.Tensor:
        return gated_product.fused(*given, form=_GATED[choice], **options)

    @staticmethod
    def gated_fp8(choice: str, *given: Any, **options: Any) -> torch.Tensor:
        return gated_product.fused_fp8(*given, form=_GATED[choice], **options)

    @staticmethod
    def attention(choice: str, *tensors: torch.Tensor, **options: Any) -> torch.Tensor:
        return prefix_attention.fused(*tensors, form=_ATTENTION[choice], **options)

    def served(
        self, choice: str, offered: Sequence[str], otherwise: str, run: Callable[[str], _T]
    ) -> _T:
        """``run(choice)``; ``run(otherwise)`` where the choice is one of these, but not offered for
        what is given now, or refused, which is told once."""
        if choice not in _GATED and choice not in _ATTENTION:
            return run(choice)
        if choice in offered and not self._refused:
            try:
                return run(choice)
            except (OSError, CudaError) as error:
                _log.warning("the prefix runs without its kernels for Hopper: %s", error)
                self._refused = True
        return run(otherwise)
