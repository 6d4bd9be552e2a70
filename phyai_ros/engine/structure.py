# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Structures of tensors and arrays: what a request is made of, but for the values."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

_LEAF, _SEQUENCE, _DICT, _RECORD, _VALUE = range(5)
_kinds: dict[type, int] = {}
"""By type: asking takes longer than all else in the way of a request."""


class Fixed(tuple[Any, ...]):
    """A tuple without tensors or arrays in it: described as a whole."""


def _kind(of: type) -> int:
    known = _kinds.get(of)
    if known is None:
        if issubclass(of, torch.Tensor | np.ndarray) or hasattr(of, "STACK"):
            known = _LEAF
        elif issubclass(of, Fixed):
            known = _VALUE
        elif issubclass(of, tuple | list):
            known = _SEQUENCE
        elif issubclass(of, dict):
            known = _DICT
        elif dataclasses.is_dataclass(of) or hasattr(of, "differentiates"):  # solver.Guide
            known = _RECORD
        else:
            known = _VALUE
        _kinds[of] = known
    return known


def flatten(value: Any) -> tuple[list[Any], Any]:
    """-> the tensors and arrays in order, and a hashable description of everything else. Knows
    tensors, numpy arrays, ``staging.Stack``, tuples, lists, dicts, dataclasses and guides; any
    other value must be hashable."""
    leaves: list[Any] = []
    return leaves, _describe(value, leaves)


def _describe(value: Any, leaves: list[Any]) -> Any:
    of = type(value)
    kind = _kind(of)
    if kind == _LEAF:
        leaves.append(value)
        return tuple(value.shape), value.dtype
    if kind == _VALUE:
        return value
    if kind == _SEQUENCE:
        return of, *[_describe(v, leaves) for v in value]
    items = value.items() if kind == _DICT else vars(value).items()
    return of, *[(k, _describe(v, leaves)) for k, v in items]


def replace(value: Any, leaves: Iterator[Any]) -> Any:
    """``value`` with its tensors and arrays taken from ``leaves``, in ``flatten``'s order."""
    kind = _kind(type(value))
    if kind == _LEAF:
        return next(leaves)
    if kind == _SEQUENCE:
        new = [replace(v, leaves) for v in value]
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    if kind == _DICT:
        return {k: replace(v, leaves) for k, v in value.items()}
    if kind == _RECORD:
        twin = copy.copy(value)
        for k, v in vars(value).items():
            object.__setattr__(twin, k, replace(v, leaves))
        return twin
    return value
