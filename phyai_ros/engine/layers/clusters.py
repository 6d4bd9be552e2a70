# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Kernels that take rows through a whole stack of layers in few launches, offered beside the
layers' own operators as long as compiler and driver take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from phyai_ros.engine.kernels._cuda import Attempt
from phyai_ros.engine.layers.operators import LIBRARY, Operators

_Kernels = TypeVar("_Kernels")
_T = TypeVar("_T")
CLUSTERS = "clusters"
"""The choice in a table of operators; the other is LIBRARY, operator by operator."""


class Clusters(Generic[_Kernels]):
    """what: the stack, in a warning. make: its kernels, None where there are none. ``kernels`` is
    None from then on where they were refused."""

    def __init__(self, what: str, make: Callable[[], _Kernels | None]):
        self._attempt = Attempt(what)
        self.kernels: _Kernels | None = None
        self.kernels = self.attempt(make)

    def attempt(self, make: Callable[[], _T]) -> _T | None:
        """What ``make`` gives; None where the compiler or the driver refuses it."""
        found = self._attempt(make)
        if self._attempt.refused:
            self.kernels = None
        return found

    def faster(
        self,
        operators: Operators,
        key: str,
        x: torch.Tensor,
        launches: Callable[[torch.Tensor], torch.Tensor],
        layers: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """x through the one that was measured to be faster under ``key``; both may use x up."""
        candidates = {
            CLUSTERS: lambda _: launches(x.clone()), LIBRARY: lambda _: layers(x.clone()),
        }  # fmt: skip
        chosen = operators.chosen(key, candidates)
        found = self.attempt(lambda: launches(x)) if chosen == CLUSTERS else None
        return layers(x) if found is None else found
