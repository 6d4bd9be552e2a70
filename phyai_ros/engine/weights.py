# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which weight of a checkpoint goes where in a module, and how it is put there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from phyai_ros.engine.types import MisfitError, PolicyError

Dtype = torch.dtype | Callable[[str], torch.dtype]


class Rows(NamedTuple):
    """Rows [start, start + size) of parameter ``name``, its first axis; size None is all of it.
    A parameter that several keys fill (query, key and value as one product) needs no second copy.
    """

    name: str
    start: int = 0
    size: int | None = None


Rename = Callable[[str], "str | Rows | None"]
"""Checkpoint key -> parameter name of the module, or the rows of one that it fills; None where the
key is not this module's."""


def targets_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter and persistent buffer, by name."""
    buffers = dict(module.named_buffers(remove_duplicate=False))
    kept = module.state_dict(keep_vars=True)
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **{name: buffer for name, buffer in buffers.items() if name in kept},
    }


def sources_of(
    targets: Mapping[str, torch.Tensor],
    files: Mapping[str, Path],
    root: Path,
    *,
    rename: Rename,
    ignore: Sequence[str],
    tied: Mapping[str, str],
) -> dict[Rows, str]:
    """What is filled -> the key that fills it. targets: of ``targets_of``. files: weight key ->
    its file, of the checkpoint ``root``. The rest and the PolicyErrors are ``Checkpoint.fill``'s.
    """
    ignored = re.compile("|".join(f"(?:{p})" for p in ignore)) if ignore else None
    sources: dict[Rows, str] = {}
    unused: list[str] = []
    for key in files:
        given = rename(key)
        slot = Rows(given) if isinstance(given, str) else given
        if slot is not None and slot.name in targets:
            if slot in sources:
                raise PolicyError(
                    f"{files[key]}: keys {sources[slot]!r} and {key!r} are both {slot.name!r}"
                )
            sources[slot] = key
        elif key not in tied.values() and not (ignored and ignored.fullmatch(key)):
            unused.append(key)
    for name, key in tied.items():
        if Rows(name) not in sources and key in files:
            sources[Rows(name)] = key
    missing = _unfilled(targets, sources)
    if missing or unused:
        raise MisfitError(_mismatch(root, list(files), missing, unused))
    return sources


def _unfilled(targets: Mapping[str, torch.Tensor], sources: Mapping[Rows, str]) -> list[str]:
    """Names of parameters of which some rows have no key."""
    open_rows = {name: len(t) if t.ndim else 1 for name, t in targets.items()}
    for slot in sources:
        count = open_rows[slot.name] if slot.size is None else slot.size
        open_rows[slot.name] -= count
    return [name for name, count in open_rows.items() if count]


def _mismatch(root: Path, keys: list[str], missing: list[str], unused: list[str]) -> str:
    lines = [f"{root}: weights do not fit the model of config.json"]
    for title, names, others in (
        ("missing", missing, unused or keys),
        ("unexpected", unused, missing),
    ):
        for name in names[:5]:
            lines.append(f"  {title}: {name!r}{near(name, others)}")
        if len(names) > 5:
            lines.append(f"  ... {len(names)} {title} in all")
    return "\n".join(lines)


def put(
    module: nn.Module,
    slot: Rows,
    target: torch.Tensor,
    stored: torch.Tensor,
    *,
    device: torch.device,
    dtype: Dtype,
    where: str,
) -> None:
    """``stored``, as a file has it, into the ``slot`` of ``module``. target: of ``targets_of``.
    dtype: as ``Checkpoint.fill`` has it. where: file and key, for the PolicyError of a shape or
    dtype that does not fit."""
    shape = _shape(target, slot)
    if tuple(stored.shape) != shape:
        raise MisfitError(f"{where}: expected shape {shape}, found {tuple(stored.shape)}")
    floating = target.is_floating_point()
    if floating != stored.is_floating_point() or stored.element_size() == 1:
        raise PolicyError(
            f"{where}: dtype {stored.dtype} is not supported here; expected float32, float16 or "
            "bfloat16"
            if floating
            else f"{where}: expected an integer tensor, found {stored.dtype}"
        )
    wanted = dtype(slot.name) if callable(dtype) else dtype
    # copy=True: the memory map must not stay referenced, a file may be replaced under us.
    value = stored.to(device, wanted if floating else stored.dtype, copy=True)
    _assign(module, slot, target, value)


def _shape(target: torch.Tensor, slot: Rows) -> tuple[int, ...]:
    return tuple(target.shape) if slot.size is None else (slot.size, *target.shape[1:])


def _assign(module: nn.Module, slot: Rows, target: torch.Tensor, value: torch.Tensor) -> None:
    owner_name, _, leaf = slot.name.rpartition(".")
    owner = module.get_submodule(owner_name)
    if slot.size is not None:
        whole = getattr(owner, leaf).detach()
        if whole.is_meta:
            whole = torch.empty(target.shape, dtype=value.dtype, device=value.device)
        whole[slot.start : slot.start + slot.size].copy_(value)
        value = whole
    if leaf in owner._parameters:
        owner._parameters[leaf] = nn.Parameter(value, requires_grad=False)
    else:
        owner._buffers[leaf] = value


def near(name: str, candidates: Sequence[str]) -> str:
    """Those of ``candidates`` most like ``name``, by shared trailing parts, as text; or nothing."""
    parts = name.split(".")[::-1]

    def score(other: str) -> int:
        count = 0
        for a, b in zip(parts, other.split(".")[::-1], strict=False):
            if a != b:
                break
            count += 1
        return count

    best = sorted((c for c in candidates if score(c)), key=lambda c: (-score(c), c))[:3]
    return f" (near: {', '.join(repr(b) for b in best)})" if best else ""
