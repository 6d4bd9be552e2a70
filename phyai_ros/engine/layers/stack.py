# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A module list that knows what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)


class Stack(nn.ModuleList, Generic[M]):
    """``nn.ModuleList`` of one type: iterating and indexing by a number give that type."""

    def __iter__(self) -> Iterator[M]:
        return cast("Iterator[M]", super().__iter__())

    def at(self, index: int) -> M:
        return cast(M, self[index])
