# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Family names, and which family a checkpoint belongs to.

A family is the package ``phyai_ros.engine.models.<family>``; its ``adapter`` module has

    load(checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device,
         dtype: torch.dtype) -> Adapter

Adding a family is that folder and one line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.base import Adapter
from phyai_ros.engine.types import FamilyError, OtherFamilyError, PolicyError


@dataclass(frozen=True)
class Family:
    """config_types: values of ``type``, ``model_type`` or ``architectures`` in config.json, lower
    case. aliases: other names a user may give."""

    name: str
    config_types: frozenset[str]
    aliases: tuple[str, ...] = ()


_FAMILIES = (
    Family(
        "gr00t_n17",
        frozenset({"groot", "gr00tn1d7", "gr00t_n1d7", "gr00t_n1_7"}),
        ("gr00t", "groot", "gr00t_n1.7"),
    ),
    Family("pi0", frozenset({"pi0"})),
    Family("pi05", frozenset({"pi05"}), ("pi0.5", "pi0_5")),
    Family("smolvla", frozenset({"smolvla"})),
    Family("act", frozenset({"act"})),
    Family("diffusion", frozenset({"diffusion"}), ("diffusion_policy",)),
)
_NONSENSE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What code raises that meets a value of another kind than it was written for."""
_BY_NAME = {name: f for f in _FAMILIES for name in (f.name, *f.aliases)}


def families() -> tuple[str, ...]:
    """The family names, without aliases."""
    return tuple(f.name for f in _FAMILIES)


def family(name: str) -> Family:
    """A family by name or alias. Raises PolicyError listing what exists."""
    return _BY_NAME[resolve(name)]


def resolve(name: str) -> str:
    """A family name or alias -> the family name. Raises PolicyError listing what exists."""
    family = _BY_NAME.get(name.lower())
    if family is None:
        raise PolicyError(f"unknown model family {name!r}; known: {', '.join(sorted(_BY_NAME))}")
    return family.name


def detect(checkpoint: Checkpoint) -> str:
    """The family of a checkpoint, from config.json; for openpi's converter, whose config.json does
    not name the model, from the weights' keys. Raises FamilyError when none fits."""
    config = checkpoint.config
    named = config.get("architectures")
    told = [
        config.get("type"), config.get("model_type"), *(named if isinstance(named, list) else ())
    ]  # fmt: skip
    for value in told:
        for family in _FAMILIES:
            if isinstance(value, str) and value.lower().replace("-", "_") in family.config_types:
                return family.name
    if "paligemma_variant" in config:
        keys = checkpoint.keys
        if any(key.endswith("state_proj.weight") for key in keys):
            return "pi0"
        if any(key.startswith(("paligemma_with_expert.", "model.paligemma_with")) for key in keys):
            return "pi05"
    raise FamilyError(
        f"{checkpoint.root / 'config.json'}: cannot tell the model family from "
        f"type/model_type/architectures = {[v for v in told if v]}; "
        f"known families: {', '.join(families())} (name one with family=)"
    )


def settle(checkpoint: Checkpoint, wanted: str | None) -> str:
    """The family to build: what the checkpoint says, else what somebody does. wanted: a name or
    alias. Raises OtherFamilyError where both speak and do not agree."""
    if wanted is None:
        return detect(checkpoint)
    wanted = resolve(wanted)
    try:
        found = detect(checkpoint)
    except PolicyError:
        return wanted
    if found != wanted:
        text = f"{checkpoint.root / 'config.json'}: family {wanted!r} asked for, but this is "
        raise OtherFamilyError(f"{text}{found!r}: name that or none", found)
    return found


def build(
    name: str,
    checkpoint: Checkpoint,
    *,
    embodiment: str | None,
    device: torch.device,
    dtype: torch.dtype,
) -> Adapter:
    """Build family ``name`` from the checkpoint. Raises PolicyError when it does not fit."""
    family = resolve(name)
    module = importlib.import_module(f"phyai_ros.engine.models.{family}.adapter")
    load: Callable[..., Any] = module.load
    try:
        adapter: Adapter = load(checkpoint, embodiment=embodiment, device=device, dtype=dtype)
    except PolicyError as error:
        if type(error) is PolicyError and str(checkpoint.root) not in str(error):
            raise PolicyError(f"{checkpoint.root}: {error}") from error
        raise
    except torch.OutOfMemoryError:
        raise
    except _NONSENSE as error:  # whatever a file says that no check above foresaw
        raise PolicyError(
            f"{checkpoint.root}: its JSON files describe no {family} model that can be built "
            f"({type(error).__name__}: {error})"
        ) from error
    return adapter
