# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Structures of tensors and arrays: what a request is made of, but for the values."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


def flatten(value: Any) -> tuple[list[Any], Any]:
    """-> the tensors and arrays in order, and a hashable description of everything else. Knows
    tensors, numpy arrays, what has ``arrays`` (``staging.Stack``), tuples, lists, dicts,
    dataclasses and guides; any other value must be hashable."""
    leaves: list[Any] = []
    return leaves, _describe(value, leaves)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray) or hasattr(value, "arrays")


def _describe(value: Any, tensors: list[Any]) -> Any:
    if _is_leaf(value):
        tensors.append(value)
        return ("tensor", tuple(value.shape), value.dtype)
    if isinstance(value, tuple | list):
        return (type(value), tuple(_describe(v, tensors) for v in value))
    if isinstance(value, dict):
        return (dict, tuple((k, _describe(v, tensors)) for k, v in value.items()))
    if _is_record(value):
        fields = tuple((k, _describe(v, tensors)) for k, v in vars(value).items())
        return (type(value), fields)
    return ("value", value)


def _is_record(value: Any) -> bool:
    """A dataclass, or a guide (``solver.Guide``)."""
    return hasattr(value, "differentiates") or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def replace(value: Any, tensors: Iterator[Any]) -> Any:
    """``value`` with its tensors and arrays taken from ``tensors``, in ``flatten``'s order."""
    if _is_leaf(value):
        return next(tensors)
    if isinstance(value, tuple | list):
        new = [replace(v, tensors) for v in value]
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    if isinstance(value, dict):
        return {k: replace(v, tensors) for k, v in value.items()}
    if _is_record(value):
        twin = copy.copy(value)
        for k, v in vars(value).items():
            object.__setattr__(twin, k, replace(v, tensors))
        return twin
    return value
