# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Demonstrations on disk, and all of them in the device's memory for training."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tools.train.batch import Batch

if TYPE_CHECKING:
    from tools.train.families import Family

DONE = "meta.json"
"""Written last: the directory is complete once it exists."""
HELD_OUT = 2048
"""Last samples, never trained on."""


def wait_for(directory: Path, limit: float = 900.0) -> None:
    """Until the demonstrations are complete. Raises TimeoutError."""
    deadline = time.monotonic() + limit
    while not (directory / DONE).is_file():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{directory / DONE}: no demonstrations after {limit:.0f} s")
        time.sleep(0.5)


class Dataset:
    """``images`` stay uint8; state and chunk are normalised once, with the export's statistics."""

    def __init__(self, directory: Path, family: Family, device: torch.device) -> None:
        self.meta: dict[str, Any] = json.loads((directory / DONE).read_text())
        self.family = family
        if tuple(self.meta["instructions"]) != tuple(family.instructions):
            raise ValueError(f"{directory}: made with other instructions than the prompts")

        def array(name: str) -> np.ndarray:
            return np.load(directory / f"{name}.npy", mmap_mode="r")

        images = array(family.images)
        self.images = torch.empty(images.shape, dtype=torch.uint8, device=device)
        for i in range(0, len(images), 4096):
            self.images[i : i + 4096] = torch.from_numpy(np.array(images[i : i + 4096])).to(device)
        self.raw_state = torch.from_numpy(np.array(array("state"))).to(device)
        self.raw_chunk = torch.from_numpy(np.array(array("chunk"))).to(device)
        self.text = torch.from_numpy(np.array(array("text"))).long().to(device)
        family.fit(self.raw_state, self.raw_chunk)
        self.state = family.normalise_state(self.raw_state)
        self.chunk = family.normalise_chunk(self.raw_chunk, self.raw_state)
        self.blocks = _standardise(torch.from_numpy(np.array(array("blocks"))).to(device))
        self.goal = _standardise(torch.from_numpy(np.array(array("goal"))).to(device))

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, index: Tensor) -> Batch:
        state = self.state[index]
        ids, valid = self.family.prompt(self.text[index], state)
        return Batch(
            self.images[index],
            ids,
            valid,
            state,
            self.chunk[index],
            self.blocks[index],
            self.goal[index],
        )

    def batch(self, size: int) -> Batch:
        """Random training samples, their words garbled now and then."""
        last = max(1, len(self) - HELD_OUT)
        index = torch.randint(last, (size,), device=self.images.device)
        rows = self.rows(index)
        return rows._replace(ids=self.family.garble(rows.ids, self.text[index]))

    def errors(self, model: Any) -> dict[str, list[float]]:
        """Joint error in rad (and m) of held-out chunks: quantiles 0.5, 0.95, 1 by chunk row."""
        index = torch.arange(max(0, len(self) - HELD_OUT), len(self), device=self.images.device)
        found = []
        for part in index.split(512):
            noise = torch.randn_like(self.chunk[part])
            actions = model.sample(self.rows(part), noise)
            raw = self.family.restore_chunk(actions, self.raw_state[part])
            found.append((raw - self.raw_chunk[part])[..., :6].abs().amax(-1))
        error = torch.cat(found)
        at = torch.tensor([0.5, 0.95, 1.0], device=error.device)
        return {
            f"row {r}": [round(v, 5) for v in error[..., r].flatten().quantile(at).tolist()]
            for r in (0, 7, error.shape[-1] - 1)
        }


def _standardise(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.std(0) + 1e-6)
