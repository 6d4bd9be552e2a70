# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Modules without values: a checkpoint brings them all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

_FILLS: tuple[Any, ...] = (
    torch.Tensor.normal_,
    torch.Tensor.uniform_,
    init.normal_,
    init.uniform_,
)


class _Unfilled(TorchFunctionMode):
    """Random values are not drawn for tensors that hold none. torch would import its compiler for
    that (normal_ on the meta device is written in Python): 1 s of every start."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _FILLS:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)


@contextlib.contextmanager
def only() -> Iterator[None]:
    """Modules built within have shapes and nothing else: parameters on the meta device."""
    with torch.device("meta"), _Unfilled():
        yield
