# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a study varies and what it holds fixed; its identity for resuming and for repeating it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phyai_ros.study.latency import Latency
from phyai_ros.study.loop import Condition

EXPERT = "expert"
"""In place of a checkpoint: the scripted expert."""
FIRST_SEED = 2_000_000
"""Of the first episode; training and evaluation draw theirs elsewhere."""


@dataclass(frozen=True)
class Setting:
    """Held fixed. model: a name in config/models or its YAML; checkpoint: what the engine takes, or
    ``EXPERT``. speed: m/s of the block, 0: it lies still. limit: seconds of an episode. image_age:
    seconds by which pictures are taken before the tick that can first see them."""

    robot: str
    model: str
    checkpoint: str
    embodiment: str | None
    task: str
    speed: float
    reversing: bool
    limit: float
    image_age: float = 0.0

    def about(self) -> dict[str, Any]:
        """For people and for comparison; no path of this machine."""
        return {
            "robot": Path(self.robot).stem,
            "model": Path(self.model).stem if self.checkpoint != EXPERT else EXPERT,
            "checkpoint": Path(self.checkpoint).name,
            "weights": digest(self.checkpoint),
            "task": self.task,
            "speed": self.speed,
            "reversing": self.reversing,
            "limit": self.limit,
            "image_age": self.image_age,
        }


@dataclass(frozen=True)
class Design:
    setting: Setting
    conditions: tuple[Condition, ...]
    episodes: int
    first_seed: int

    def jobs(self) -> list[tuple[Condition, int]]:
        """All episodes, by seed first, so that a part of them already compares the conditions."""
        seeds = range(self.first_seed, self.first_seed + self.episodes)
        return [(condition, seed) for seed in seeds for condition in self.conditions]


def cross(
    handoffs: Sequence[str], horizons: Sequence[int], latencies: Sequence[Latency]
) -> tuple[Condition, ...]:
    return tuple(Condition(m, s, d) for s in horizons for d in latencies for m in handoffs)


def digest(checkpoint: str) -> str:
    """First 16 hex digits of the SHA-256 of a checkpoint's weights; empty for none at hand."""
    files = sorted(Path(checkpoint).glob("*.safetensors")) if checkpoint != EXPERT else []
    if not files:
        return ""
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]
