# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What differs between the two embedded checkpoints: prompts, normalisation, layout on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tools.train import export_gr00t, export_pi05, follow
from tools.train.batch import Batch
from tools.train.dataset import Dataset
from tools.train.demonstrations import HORIZON, STATE, VIEWS
from tools.train.gr00t import Gr00t
from tools.train.gr00t_backbone import BackboneSize
from tools.train.pi05 import Pi05Trainee, flow_config
from tools.train.pi05_rtc import Pi05RtcTrainee
from tools.train.statistics import Range
from tools.train.text import make_pi05_tokenizer, make_tokenizer, prompt_table, state_prompts
from tools.train.wordings import REPLACED, fillers, instructions, replaceable

PROBES = (6, 6)
"""Widths of the probes' targets: three blocks' x and y; the arm joints at the goal."""
ARM = slice(0, 6)


class Family(ABC):
    """What training needs of a model family. Arm joints are relative to the observed ones, the
    gripper is absolute.

    chunk_shape: of one sample's chunk, or chunks. images: name of the demonstrations' array.
    side: of its pictures, pixels. per_row: one action range a chunk row instead of one for all.
    arrays: the prompts as tables.
    """

    instructions: tuple[str, ...]
    images: str
    side: int
    state: Range
    chunk: Range
    per_row: bool
    arrays: dict[str, np.ndarray]
    chunk_shape: tuple[int, ...] = (HORIZON, STATE)

    def __init__(self) -> None:
        self._tables: dict[str, Tensor] = {}
        self._kept: tuple[Range, Range] | None = None

    def keep(self, state: Range, chunk: Range) -> None:
        """Use these ranges, so that weights trained with them mean the same."""
        self._kept = state, chunk

    def fit(self, state: Tensor, chunk: Tensor) -> None:
        """Ranges from the demonstrations, unless ``keep`` was told of others."""
        if self._kept is not None:
            self.state, self.chunk = (r.to(state.device) for r in self._kept)
            return
        self.state = Range.of(state, (0,))
        all_rows = tuple(range(chunk.ndim - 1))
        self.chunk = Range.of(self.relative(chunk, state), (0,) if self.per_row else all_rows)

    def relative(self, chunk: Tensor, state: Tensor) -> Tensor:
        moved = chunk.clone()
        moved[..., ARM] -= _for_rows(state, chunk)[..., ARM]
        return moved

    def normalise_state(self, state: Tensor) -> Tensor:
        return self.state.normalise(state)

    def normalise_chunk(self, chunk: Tensor, state: Tensor) -> Tensor:
        return self.chunk.normalise(self.relative(chunk, state))

    def restore_chunk(self, actions: Tensor, state: Tensor) -> Tensor:
        chunk = self.chunk.restore(actions)
        chunk[..., ARM] += _for_rows(state, chunk)[..., ARM]
        return chunk

    @abstractmethod
    def build(self) -> nn.Module: ...

    @abstractmethod
    def prompt(self, text: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """text [b], numbers of instructions; state [b, n] normalised -> ids, valid [b, length]."""

    @abstractmethod
    def export(self, model: nn.Module, data: Dataset, directory: Path) -> None:
        """Write the checkpoint."""

    def table(self, name: str, device: torch.device) -> Tensor:
        """One of the prompts' arrays on the device."""
        if name not in self._tables:
            self._tables[name] = torch.from_numpy(self.arrays[name]).to(device)
        return self._tables[name]

    def garble(self, ids: Tensor, text: Tensor) -> Tensor:
        """Replace some words of every other prompt; never the colour."""
        chance = REPLACED * (torch.rand(len(ids), 1, device=ids.device) < 0.5)
        chosen = torch.rand(ids.shape, device=ids.device) < chance
        pool = self.table("fillers", ids.device)
        new = pool[torch.randint(len(pool), ids.shape, device=ids.device)]
        return torch.where(chosen & self.table("words", ids.device)[text], new, ids)

    def random_batch(self, size: int, device: torch.device) -> Batch:
        """Of the right shapes, to compile on."""
        text = torch.randint(len(self.instructions), (size,), device=device)
        state = torch.rand(size, STATE, device=device) * 2 - 1
        images = torch.randint(
            0, 256, (size, VIEWS, 3, self.side, self.side), device=device, dtype=torch.uint8
        )
        return Batch(
            images,
            *self.prompt(text, state),
            state,
            torch.randn(size, *self.chunk_shape, device=device),
            *(torch.randn(size, n, device=device) for n in PROBES),
        )


class Gr00tFamily(Family):
    """Isaac-GR00T: one range a chunk row."""

    images, per_row = "images_gr00t", True

    def __init__(self) -> None:
        super().__init__()
        self.instructions = tuple(instructions())
        size = BackboneSize()
        self.side = size.image
        self.tokenizer = make_tokenizer([*self.instructions, "user\n"])
        self.prompts = prompt_table(
            self.tokenizer, list(self.instructions), size.views, size.view_tokens
        )
        p = self.prompts
        self.arrays = {
            "ids": p.ids,
            "valid": p.valid,
            "fillers": fillers(self.tokenizer),
            "words": replaceable(self.tokenizer, p.ids, len(p.prefix)),
        }

    def build(self) -> nn.Module:
        return Gr00t(self.prompts, PROBES)

    def prompt(self, text: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.table("ids", text.device)[text], self.table("valid", text.device)[text]

    def export(self, model: nn.Module, data: Dataset, directory: Path) -> None:
        assert isinstance(model, Gr00t)
        export_gr00t.write(model, self, data, directory)


class Pi05Family(Family):
    """LeRobot: one range a column over all rows; the state as numbers in the prompt."""

    images, per_row = "images_pi05", False

    def __init__(self) -> None:
        super().__init__()
        self.instructions = tuple(instructions())
        self.tokenizer = make_pi05_tokenizer(list(self.instructions))
        self.prompts = state_prompts(self.tokenizer, list(self.instructions), STATE)
        self.config = flow_config(self.prompts.vocab, STATE, STATE, HORIZON)
        self.side = self.config.vision.image_size
        p = self.prompts
        self.arrays = {
            "ids": p.ids,
            "valid": p.valid,
            "numbers": p.numbers,
            "edges": np.linspace(-1, 1, 257)[:-1],
            "fillers": fillers(self.tokenizer),
            "words": replaceable(self.tokenizer, p.ids),
        }

    def build(self) -> nn.Module:
        return Pi05Trainee(self.config, VIEWS, PROBES)

    def prompt(self, text: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        # numpy.digitize: how many edges lie at or below the value; bin -1 is number 0 here.
        edges = self.table("edges", text.device)
        bins = torch.bucketize(state.double(), edges, right=True)
        rows = self.table("ids", text.device)[text]
        slot = (-1 - rows).clamp_min(0)
        found = self.table("numbers", text.device)[bins].gather(1, slot)
        return torch.where(rows < 0, found, rows), self.table("valid", text.device)[text]

    def export(self, model: nn.Module, data: Dataset, directory: Path) -> None:
        assert isinstance(model, Pi05Trainee)
        export_pi05.write(model, self, data, directory)


class Pi05RtcFamily(Pi05Family):
    """pi0.5 that goes on from a plan (arXiv 2512.05964): a chunk for every number of decided rows;
    needs the demonstrations of the task follow."""

    chunk_shape = (follow.MAX_DELAY + 1, HORIZON, STATE)

    def __init__(self) -> None:
        super().__init__()
        self.config = replace(self.config, trained_delay=follow.MAX_DELAY)

    def build(self) -> nn.Module:
        return Pi05RtcTrainee(self.config, VIEWS, PROBES)


FAMILIES: dict[str, Callable[[], Family]] = {
    "gr00t": Gr00tFamily,
    "pi05": Pi05Family,
    "pi05_rtc": Pi05RtcFamily,
}


NAMES = tuple(FAMILIES)


def make(name: str) -> Family:
    return FAMILIES[name]()


def _for_rows(state: Tensor, chunk: Tensor) -> Tensor:
    """state [b, n] -> as many axes as chunk [b, ..., n]."""
    return state.view(len(state), *(1,) * (chunk.ndim - 2), state.shape[-1])


def save_state(model: nn.Module, directory: Path) -> None:
    """float32 weights in two files (the probes apart), for ``load_state``."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    probes = {k: v for k, v in weights.items() if k.startswith("probe")}
    save_file({k: v for k, v in weights.items() if k not in probes}, directory / "weights.f32")
    save_file(probes, directory / "probes.f32")


def load_state(model: nn.Module, directory: Path) -> None:
    """What ``save_state`` wrote, or a published pi0.5 checkpoint (which has no probes)."""
    if isinstance(model, Pi05Trainee) and not (directory / "weights.f32").is_file():
        export_pi05.read(model, directory)
        return
    weights = load_file(directory / "weights.f32")
    if (directory / "probes.f32").is_file():
        weights |= load_file(directory / "probes.f32")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    wrong = [k for k in missing if not k.startswith("probe")] + list(unexpected)
    if wrong:
        raise ValueError(f"{directory}: does not fit the model: {wrong[:5]}")
