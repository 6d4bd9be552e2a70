# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint directory: its JSON files and its safetensors weights, read strictly.

Nothing is unpickled, ever. Weights are read lazily through the memory map, one tensor at a time,
straight to their device and dtype: no second copy of the model exists at any moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from tqdm import tqdm  # type: ignore[import-untyped]

from phyai_ros.engine.files import check_inside, is_own_file, read_json
from phyai_ros.engine.types import PolicyError

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


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


class Checkpoint:
    """An opened checkpoint directory. Raises PolicyError when it is not one.

    root: the directory. config: config.json. keys: every weight key. ``tensor(key)`` reads one
    weight; ``fill(module, ...)`` reads a whole module.
    """

    def __init__(self, root: str | Path):
        self.root = Path(os.path.expanduser(root))
        if not self.root.is_dir():
            raise PolicyError(f"checkpoint {str(root)!r}: no such directory")
        self.config: dict[str, Any] = self.json("config.json")
        self._check_format()

    # -- JSON -------------------------------------------------------------------------------
    def has(self, name: str) -> bool:
        """Whether the directory has this file, or a link to one."""
        return (self.root / name).is_file()

    def json(self, name: str) -> dict[str, Any]:
        """A JSON object of the directory. Raises PolicyError when absent or not an object."""
        return read_json(self.root / name, self.root)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """A small safetensors file of the directory (statistics) as float32 or integer arrays."""
        path = self.root / name
        if not path.is_file():
            there = sorted(p.name for p in self.root.glob("*.safetensors"))
            raise PolicyError(f"{path}: missing; safetensors files here: {', '.join(there)}")
        with _open(path) as file:
            return {key: file.get_tensor(key).numpy() for key in _keys(file)}

    # -- weights ----------------------------------------------------------------------------
    @cached_property
    def files(self) -> dict[str, Path]:
        """Weight key -> the file that holds it. A single file goes before an index, as it does
        with the references: where both are there, one of them is older."""
        if not self.has(_SINGLE):
            weight_map = self.json(_INDEX).get("weight_map")
            if not isinstance(weight_map, dict) or not weight_map:
                raise PolicyError(f"{self.root / _INDEX}: no 'weight_map' object with keys in it")
            for shard in dict.fromkeys(map(_text, weight_map.values())):
                if not is_own_file(shard):
                    raise PolicyError(
                        f"{self.root / _INDEX}: shard {shard!r} is not the plain name of a file "
                        "beside it; a checkpoint reads nothing outside its own directory"
                    )
                if not self.has(shard):
                    raise PolicyError(f"{self.root / shard}: shard missing, named by {_INDEX}")
            return {key: self.root / shard for key, shard in weight_map.items()}
        path = self.root / _SINGLE
        with _open(path) as file:
            return dict.fromkeys(_keys(file), path)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.files)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Weight key -> shape, from the file headers alone."""
        shapes: dict[str, tuple[int, ...]] = {}
        for path, keys in self._by_file(self.keys).items():
            with _open(path) as file:
                there = set(_keys(file))
                for key in keys:
                    if key not in there:
                        raise PolicyError(f"{path}: key {key!r} missing, named by {_INDEX}")
                    shapes[key] = tuple(file.get_slice(key).get_shape())
        return shapes

    @property
    def nbytes(self) -> int:
        """Size of the weight files."""
        return sum(path.stat().st_size for path in set(self.files.values()))

    def tensor(self, key: str) -> torch.Tensor:
        """One weight, on the host, of the dtype that the file has. Raises PolicyError when there is
        none of this key, with those most like it."""
        if key not in self.files:
            raise PolicyError(f"{self.root}: no weight {key!r}{_near(key, self.keys)}")
        with _open(self.files[key]) as file:
            return file.get_tensor(key)

    def fill(
        self,
        module: nn.Module,
        *,
        device: torch.device,
        dtype: torch.dtype | Callable[[str], torch.dtype],
        rename: Rename = lambda key: key,
        ignore: Sequence[str] = (),
        tied: Mapping[str, str] | None = None,
    ) -> None:
        """Give every parameter and persistent buffer of ``module`` its weight.

        Build the module under ``torch.device("meta")``: nothing is allocated twice. (Hold no
        non-persistent buffers: they would stay on meta.)

        dtype: of the floating tensors, or a function of the parameter name (integers keep theirs).
        rename: checkpoint key -> parameter name, or None for a key that belongs elsewhere.
        ignore: regular expressions (full match) of checkpoint keys that are known and unused.
        tied: parameter name -> checkpoint key to take it from when its own key is absent.

        Raises PolicyError when a parameter stays empty, a shape or dtype does not fit, or a key is
        neither used nor ignored; the text names file, key, expected, found and near candidates.
        """
        targets: dict[str, torch.Tensor] = {**dict(module.named_parameters(remove_duplicate=False))}
        buffers = dict(module.named_buffers(remove_duplicate=False))
        targets.update({k: v for k, v in buffers.items() if k in module.state_dict(keep_vars=True)})
        ignored = re.compile("|".join(f"(?:{p})" for p in ignore)) if ignore else None
        sources: dict[Rows, str] = {}
        unused: list[str] = []
        tied_keys = set((tied or {}).values())
        for key in self.keys:
            given = rename(key)
            slot = Rows(given) if isinstance(given, str) else given
            if slot is not None and slot.name in targets:
                if slot in sources:
                    raise PolicyError(
                        f"{self.files[key]}: keys {sources[slot]!r} and {key!r} are both "
                        f"{slot.name!r}"
                    )
                sources[slot] = key
            elif key not in tied_keys and not (ignored and ignored.fullmatch(key)):
                unused.append(key)
        for name, key in (tied or {}).items():
            if Rows(name) not in sources and key in self.files:
                sources[Rows(name)] = key
        missing = _unfilled(targets, sources)
        if missing or unused:
            raise PolicyError(self._mismatch(missing, unused))
        self._read(module, targets, sources, device, dtype)

    def _read(
        self,
        module: nn.Module,
        targets: Mapping[str, torch.Tensor],
        sources: Mapping[Rows, str],
        device: torch.device,
        dtype: torch.dtype | Callable[[str], torch.dtype],
    ) -> None:
        slots: dict[str, list[Rows]] = {}
        for slot, key in sources.items():
            slots.setdefault(key, []).append(slot)
        with tqdm(
            total=self.nbytes,
            unit="B",
            unit_scale=True,
            desc=f"loading {self.root.name}",
            disable=None,
            leave=False,
        ) as bar:
            for path, keys in self._by_file(list(slots)).items():
                with _open(path) as file:
                    there = set(_keys(file))
                    for key in keys:
                        if key not in there:
                            raise PolicyError(f"{path}: key {key!r} missing, named by {_INDEX}")
                        stored = file.get_tensor(key)
                        for slot in slots[key]:
                            target = targets[slot.name]
                            shape = _shape(target, slot)
                            if tuple(stored.shape) != shape:
                                raise PolicyError(
                                    f"{path}: key {key!r}: expected shape {shape}, "
                                    f"found {tuple(stored.shape)}"
                                )
                            value = _cast(stored, slot.name, target, device, dtype, path, key)
                            _assign(module, slot, target, value)
                        bar.update(stored.numel() * stored.element_size())

    def _by_file(self, keys: Sequence[str]) -> dict[Path, list[str]]:
        grouped: dict[Path, list[str]] = {}
        for key in keys:
            grouped.setdefault(self.files[key], []).append(key)
        return grouped

    def _mismatch(self, missing: list[str], unused: list[str]) -> str:
        lines = [f"{self.root}: weights do not fit the model of config.json"]
        for title, names, others in (
            ("missing", missing, unused or list(self.keys)),
            ("unexpected", unused, missing),
        ):
            for name in names[:5]:
                lines.append(f"  {title}: {name!r}{_near(name, others)}")
            if len(names) > 5:
                lines.append(f"  ... {len(names)} {title} in all")
        return "\n".join(lines)

    def _check_format(self) -> None:
        if self.has(_INDEX) or self.has(_SINGLE):
            return
        pickles = sorted(p.name for p in self.root.iterdir() if p.suffix in _PICKLES)
        if pickles:
            raise PolicyError(
                f"{self.root}: only pickle files ({', '.join(pickles)}), which can run code and "
                f"are never loaded; convert them to {_SINGLE}"
            )
        there = sorted(p.name for p in self.root.iterdir())
        raise PolicyError(
            f"{self.root}: neither {_SINGLE} nor {_INDEX}; files here: {', '.join(there)}"
        )


def _open(path: Path) -> Any:
    check_inside(path)
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise PolicyError(f"{path}: not a readable safetensors file ({error})") from None


def _text(name: Any) -> str:
    """A name of an index; of what is none, something that no file is called."""
    return name if isinstance(name, str) else ""


def _keys(file: Any) -> list[str]:
    return list(file.keys())


def _cast(
    stored: torch.Tensor,
    name: str,
    target: torch.Tensor,
    device: torch.device,
    dtype: torch.dtype | Callable[[str], torch.dtype],
    path: Path,
    key: str,
) -> torch.Tensor:
    if target.is_floating_point() != stored.is_floating_point() or stored.element_size() == 1:
        raise PolicyError(
            f"{path}: key {key!r}: dtype {stored.dtype} is not supported here; expected "
            "float32, float16 or bfloat16"
            if target.is_floating_point()
            else f"{path}: key {key!r}: expected an integer tensor, found {stored.dtype}"
        )
    wanted = dtype(name) if callable(dtype) else dtype
    # copy=True: the memory map must not stay referenced, a file may be replaced under us.
    return stored.to(device, wanted if stored.is_floating_point() else stored.dtype, copy=True)


def _shape(target: torch.Tensor, slot: Rows) -> tuple[int, ...]:
    return tuple(target.shape) if slot.size is None else (slot.size, *target.shape[1:])


def _unfilled(targets: Mapping[str, torch.Tensor], sources: Mapping[Rows, str]) -> list[str]:
    """Names of parameters of which some rows have no key."""
    open_rows = {name: len(t) if t.ndim else 1 for name, t in targets.items()}
    for slot in sources:
        count = open_rows[slot.name] if slot.size is None else slot.size
        open_rows[slot.name] -= count
    return [name for name, count in open_rows.items() if count]


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


def _near(name: str, candidates: Sequence[str]) -> str:
    """The most alike candidates by shared trailing parts, as text."""
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
