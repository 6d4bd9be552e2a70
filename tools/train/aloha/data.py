# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Demonstrations in the device's memory, in the numbers that the checkpoint speaks.

Grippers are shares of the finger opening, as in gym-aloha and LeRobot's simulated ALOHA data sets;
the right arm's actions are relative to the observed joints, all others absolute.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phyai_ros.sim.aloha import kinematics as kin
from tools.train.aloha.demonstrations import DONE, layout
from tools.train.aloha.policy import Sample

HELD_OUT = 2048
"""Last samples, never trained on."""
RELATIVE = tuple(range(7, 13))
FLOOR = 0.02
"""Least standard deviation that is divided by: columns that hardly move are not blown up."""
SHARE = (0.01844, 0.05800)
"""Finger opening at a share of 0 and of 1, m (ACT's constants)."""


def spoken(joints: np.ndarray) -> np.ndarray:
    """Joints [..., 14] in rad -> with grippers as shares of the opening."""
    out = np.array(joints, np.float64)
    grippers = list(kin.GRIPPERS)
    out[..., grippers] = (kin.opening(out[..., grippers]) - SHARE[0]) / (SHARE[1] - SHARE[0])
    return out


class Dataset:
    """statistics: feature -> (mean, std), as the checkpoint will hold them."""

    def __init__(self, directory: Path, device: torch.device) -> None:
        count = json.loads((directory / DONE).read_text())["samples"]
        arrays = {n: np.load(directory / f"{n}.npy", mmap_mode="r")[:count] for n in layout(0)}
        images = arrays["images"]
        self.images = torch.empty(images.shape, dtype=torch.uint8, device=device)
        for i in range(0, count, 2048):
            self.images[i : i + 2048] = torch.from_numpy(np.array(images[i : i + 2048])).to(device)
        self.raw_state = _tensor(spoken(arrays["state"]), device)
        self.raw_chunk = _tensor(spoken(arrays["chunk"]), device)
        relative = self.raw_chunk.clone()
        relative[..., RELATIVE] -= self.raw_state[:, None, RELATIVE]
        self.relative = relative
        self.statistics = {
            "observation.state": _moments(self.raw_state),
            "action": _moments(relative.flatten(0, 1)),
        }
        mean, std = self.statistics["observation.state"]
        self.state = (self.raw_state - mean) / std
        mean, std = self.statistics["action"]
        self.chunk = (relative - mean) / std
        cube = _tensor(arrays["cube"], device)
        self.cube = (cube - cube.mean(0)) / cube.std(0)

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, index: Tensor) -> Sample:
        return Sample(self.images[index], self.state[index], self.chunk[index], self.cube[index])

    def batch(self, size: int) -> Sample:
        last = max(1, len(self) - HELD_OUT)
        return self.rows(torch.randint(last, (size,), device=self.images.device))

    def held_out(self) -> Tensor:
        return torch.arange(max(0, len(self) - HELD_OUT), len(self), device=self.images.device)

    def errors(self, predict: object) -> dict[str, list[float]]:
        """Error in rad of the right arm in held-out chunks: quantiles 0.5, 0.95, 1 by row."""
        mean, std = self.statistics["action"]
        found = []
        for part in self.held_out().split(256):
            raw = predict(self.rows(part)).float() * std + mean  # type: ignore[operator]
            found.append((raw - self.relative[part])[..., 7:13].abs().amax(-1))
        error = torch.cat(found)
        at = torch.tensor([0.5, 0.95, 1.0], device=error.device)
        rows = (0, 9, 24, error.shape[1] - 1)
        return {f"row {r}": [round(v, 5) for v in error[:, r].quantile(at).tolist()] for r in rows}


def _tensor(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(values, np.float32)).to(device)


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    return values.mean(0), values.std(0).clamp_min(FLOOR)
