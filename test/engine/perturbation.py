# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Spoil one weight of a model and put it back: a check that does not notice checks nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


def kinds(
    model: nn.Module, without_effect: Callable[[str], bool] = lambda name: False
) -> list[str]:
    """One tensor name of each kind, a kind being the names that differ in numbers only."""
    found: dict[str, str] = {}
    for name in model.state_dict():
        if not without_effect(name):
            found.setdefault(re.sub(r"\d+", "N", name), name)
    return list(found.values())


@contextmanager
def spoiled(model: nn.Module, name: str) -> Iterator[None]:
    """Every element of the tensor is off by a random two per cent of the tensor's magnitude."""
    tensor = model.state_dict()[name]
    before = tensor.clone()
    noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        tensor.add_(0.02 * noise.to(tensor.dtype) * tensor.abs().mean())
    try:
        yield
    finally:
        with torch.inference_mode():
            tensor.copy_(before)
