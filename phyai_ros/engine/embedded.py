# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The checkpoints that come with the package, by name. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path


def directories() -> list[Path]:
    """phyai_ros/checkpoints. Where ``colcon build --symlink-install`` made a tree of links, first
    the sources' own: a checkpoint of links, which lead out of it, is refused."""
    module = Path(__file__)
    roots = (module.resolve().parents[1], module.parents[1])
    return [root / "checkpoints" for root in dict.fromkeys(roots)]


def names() -> list[str]:
    """What ``find`` finds, sorted."""
    places = [place for place in directories() if place.is_dir()]
    return sorted({p.name for place in places for p in place.iterdir() if p.is_dir()})


def find(name: str) -> Path | None:
    """The directory of an embedded checkpoint; None where there is none of that name."""
    if name not in names():  # a path, which leads elsewhere
        return None
    return next(place / name for place in directories() if (place / name).is_dir())
