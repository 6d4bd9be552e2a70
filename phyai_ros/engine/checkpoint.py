# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint directory: its JSON files and its safetensors weights, read strictly.

Nothing is unpickled, ever. Weights are read lazily through the memory map, one tensor at a time,
straight to their device and dtype: no second copy of the model exists at any moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from tqdm import tqdm  # type: ignore[import-untyped]

from phyai_ros.engine import weights
from phyai_ros.engine.files import (
    check_inside,
    checkpoints_below,
    is_own_file,
    is_there,
    read_json,
    unreadable,
)
from phyai_ros.engine.types import MisfitError, PolicyError
from phyai_ros.engine.weights import Dtype, Rename, Rows, near

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_SIZES = "architecture.json"


class Checkpoint:
    """An opened checkpoint directory. Raises PolicyError when it is not one.

    root: the directory. config: config.json. keys: every weight key. ``tensor(key)`` reads one
    weight; ``fill(module, ...)`` reads a whole module.
    """

    def __init__(self, root: str | Path):
        self.root = Path(os.path.expanduser(root))
        if not self.root.is_dir():
            raise PolicyError(f"checkpoint {str(root)!r}: no such directory")
        if not self.has("config.json") and (below := checkpoints_below(self.root)):
            raise PolicyError(
                f"{self.root}: expected a checkpoint's own directory, with config.json and "
                f"weights; below it there {'is' if len(below) == 1 else 'are'} "
                f"{', '.join(map(str, below))}"
            )
        self.config: dict[str, Any] = self.json("config.json")
        self._check_format()

    # -- JSON -------------------------------------------------------------------------------
    def has(self, name: str) -> bool:
        """Whether the directory has this file, or a link to one; raises as ``is_there`` does."""
        return is_there(self.root / name)

    def json(self, name: str) -> dict[str, Any]:
        """A JSON object of the directory. Raises PolicyError when absent or not an object."""
        return read_json(self.root / name, self.root)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """A small safetensors file of the directory (statistics) as float32 or integer arrays."""
        path = self.root / name
        if not is_there(path):
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
        return {
            key: tuple(file.get_slice(key).get_shape()) for _, file, key in self._opened(self.keys)
        }

    @property
    def nbytes(self) -> int:
        """Size of the weight files."""
        return sum(path.stat().st_size for path in set(self.files.values()))

    def tensor(self, key: str) -> torch.Tensor:
        """One weight, on the host, of the dtype that the file has. Raises PolicyError when there is
        none of this key, with those most like it."""
        if key not in self.files:
            raise PolicyError(f"{self.root}: no weight {key!r}{near(key, self.keys)}")
        with _open(self.files[key]) as file:
            return file.get_tensor(key)

    def fill(
        self,
        module: nn.Module,
        *,
        device: torch.device,
        dtype: Dtype,
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
        targets = weights.targets_of(module)
        sources = weights.sources_of(
            targets, self.files, self.root, rename=rename, ignore=ignore, tied=tied or {}
        )
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
            for path, file, key in self._opened(list(slots)):
                stored = file.get_tensor(key)
                for slot in slots[key]:
                    weights.put(
                        module,
                        slot,
                        targets[slot.name],
                        stored,
                        device=device,
                        dtype=dtype,
                        where=f"{path}: key {key!r}",
                    )
                bar.update(stored.numel() * stored.element_size())

    @contextmanager
    def sized_by(self, keys: str) -> Iterator[None]:
        """For families whose sizes ``keys`` of config.json name, or architecture.json tells: what
        does not fit is refused with that file's name where it is not there."""
        try:
            yield
        except MisfitError as error:
            if self.has(_SIZES):
                raise
            raise MisfitError(
                f"{error}; {self.root / _SIZES}: no such file, so the sizes are the published ones "
                f"that {keys} of config.json names: where the weights have others, that file is "
                "missing: copy it from where they come from"
            ) from None

    def _opened(self, keys: Sequence[str]) -> Iterator[tuple[Path, Any, str]]:
        """Each key with its file, opened, a file at a time."""
        grouped: dict[Path, list[str]] = {}
        for key in keys:
            grouped.setdefault(self.files[key], []).append(key)
        for path, wanted in grouped.items():
            with _open(path) as file:
                there = set(_keys(file))
                for key in wanted:
                    if key not in there:
                        raise PolicyError(f"{path}: key {key!r} missing, named by {_INDEX}")
                    yield path, file, key

    def _check_format(self) -> None:
        if self.has(_SINGLE) or self.has(_INDEX):
            return
        pickles = sorted(p.name for p in self.root.iterdir() if p.suffix in _PICKLES)
        if pickles:
            raise PolicyError(
                f"{self.root}: only pickle files ({', '.join(pickles)}), which can run code and "
                f"are never loaded; convert them to {_SINGLE}"
            )
        if self.has("adapter_config.json") or self.has("adapter_model.safetensors"):
            raise PolicyError(
                f"{self.root}: an adapter (LoRA) without its base model: merge the two and save "
                f"the result as {_SINGLE}"
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
        raise unreadable(path, error) from None


def _text(name: Any) -> str:
    """A name of an index; of what is none, something that no file is called."""
    return name if isinstance(name, str) else ""


def _keys(file: Any) -> list[str]:
    return list(file.keys())
