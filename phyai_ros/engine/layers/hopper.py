# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Operators in CUDA C++ for Hopper, beside the selector's other candidates as long as compiler and
driver take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import torch

from phyai_ros.engine.kernels import (
    gated_product,
    many_attention,
    prefix_attention,
    tower_attention,
    wide_product,
)
from phyai_ros.engine.kernels._cuda import Attempt
from phyai_ros.engine.layers.candidates import is_some

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
_NAMES = ("hopper", "wide", "warpgroups")
"""What the names of these candidates begin with in a table; numbers of a form follow."""
_MANY = 512
"""Rows, of attention (token, head), from which there are tiles enough to be worth measuring."""


class Offered(dict[str, Callable[..., torch.Tensor]]):
    """What can be launched for what is given now, by the names that a table has for it."""

    def __init__(self, attempt: Attempt, launches: Mapping[str, Callable[..., torch.Tensor]]):
        super().__init__(launches)
        self._attempt = attempt

    def served(self, choice: str, otherwise: str, run: Callable[[str], _T]) -> _T:
        """``run(choice)``; ``run(otherwise)`` where the choice is one of these kernels, but not
        offered for what is given now, or refused."""
        if choice.split(" ")[0] not in _NAMES:
            return run(choice)
        found = self._attempt(lambda: run(choice)) if choice in self else None
        return run(otherwise) if found is None else found


class Hopper:
    """What there is of it, by operator. A kind of kernels that was refused is not tried again."""

    def __init__(self) -> None:
        self._gated, self._parts, self._attention = (
            Attempt(f"{what} of many rows") for what in ("gated product", "product", "attention")
        )

    def gated(self, x: torch.Tensor, weight: torch.Tensor) -> Offered:
        """As ``gated_linear`` takes it: launches of (x, weight, activation)."""
        if is_some(x):
            return Offered(self._gated, _wide(x, weight, gated=True))
        return Offered(self._gated, _gated(gated_product.fused, x, weight))

    def gated_fp8(self, x: torch.Tensor, weight: torch.Tensor) -> Offered:
        """Both of E4M3: launches of (rows with their scales, weight with its, activation)."""
        return Offered(self._gated, _gated(gated_product.fused_fp8, x, weight))

    def parts(self, x: torch.Tensor, weight: torch.Tensor) -> Offered:
        """As ``linear_parts`` takes it: launches of (x, weight)."""
        return Offered(self._parts, _wide(x, weight, gated=False) if is_some(x) else {})

    def attention(
        self,
        q: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        exists: torch.Tensor | None = None,
        *,
        some_unseen: bool = False,
    ) -> Offered:
        """Launches of (q, key, value, exists=). some_unseen: some queries do not see every key
        that exists, which nothing is written for."""
        many = not some_unseen and q.ndim == 4 and q.shape[1] * q.shape[2] >= _MANY
        if many and prefix_attention.fits(q, key, value):
            return Offered(self._attention, _forms(prefix_attention.fused, _ATTENTION))
        return Offered(
            self._attention, _of_towers(q, key, value) if many and exists is None else {}
        )


def _forms(fused: Callable[..., torch.Tensor], forms: Mapping[str, object]) -> dict:
    return {name: partial(fused, form=form) for name, form in forms.items()}


def _gated(fused: Callable[..., torch.Tensor], x: torch.Tensor, weight: torch.Tensor) -> dict:
    many = x.shape[0] >= _MANY and gated_product.fits(x, weight)
    return _forms(fused, _GATED) if many else {}


def _of_towers(q: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> dict:
    found = {}
    if many_attention.fits(q, key, value):
        found["warpgroups"] = partial(_without_mask, many_attention.fused)
    if tower_attention.fits(q, key, value):
        for f in tower_attention.forms(q.shape[1], q.shape[3]):
            launch = partial(tower_attention.fused, form=f)
            found[f"warpgroups {f.groups}"] = partial(_without_mask, launch)
    return found


def _without_mask(
    launch: Callable[..., torch.Tensor], *tensors: torch.Tensor, exists: None, dependent: bool
) -> torch.Tensor:
    del exists
    return launch(*tensors, dependent=dependent)


def _wide(x: torch.Tensor, weight: torch.Tensor, *, gated: bool) -> dict:
    forms = wide_product.forms(len(x), weight, gated=gated)
    names = (f"wide {f.columns}x{f.splits}x{f.sharing}" for f in forms)
    return _forms(wide_product.fused, dict(zip(names, forms, strict=True)))
