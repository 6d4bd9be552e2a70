# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The same checkpoint with other normalisation statistics, to see that they count."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

_FACTOR = 1.1
_JSON = ("statistics.json", "norm_stats.json", "stats.json")
_SIDES = {
    "state": re.compile(r"(observation\.)?(environment_)?state(\..*)?"),
    "action": re.compile(r"(relative_)?actions?(\..*)?"),
}
"""Keys of statistics files that are about the state or the action."""


def altered(checkpoint: Path, side: str, copy: Path) -> list[Path]:
    """Fill ``copy`` with the checkpoint's files, but with the statistics of one side
    (state or action) scaled; not shifted, for zeros may be padding. -> the files that differ."""
    changed = []
    for file in sorted(p for p in checkpoint.rglob("*") if p.is_file()):
        target = copy / file.relative_to(checkpoint)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.name in _JSON:
            differs = _alter_json(file, target, _SIDES[side])
        elif file.suffix == ".safetensors" and "normalizer_processor" in file.name:
            differs = _alter_tensors(file, target, _SIDES[side])
        else:
            differs = False
        if differs:
            changed.append(file)
        else:
            _same(file.resolve(), target)
    return changed


def _same(file: Path, target: Path) -> None:
    """A hard link, for weights are large; a copy where another file system or owner forbids it. (A
    symbolic link out of its directory is nothing a checkpoint may be made of.)"""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def _alter_tensors(file: Path, target: Path, side: re.Pattern[str]) -> bool:
    tensors = load_file(file)
    scaled = {
        name: t * _FACTOR if side.fullmatch(name) and t.is_floating_point() else t
        for name, t in tensors.items()
    }
    if not any(side.fullmatch(name) for name in tensors):
        return False
    save_file(scaled, target)
    return True


def _alter_json(file: Path, target: Path, side: re.Pattern[str]) -> bool:
    content = json.loads(file.read_text())
    scaled = _scaled(content, side, False)
    if scaled == content:
        return False
    target.write_text(json.dumps(scaled))
    return True


def _scaled(value: Any, side: re.Pattern[str], inside: bool) -> Any:
    """Every fraction below a key of this side; counts are whole numbers."""
    if isinstance(value, dict):
        return {k: _scaled(v, side, inside or bool(side.fullmatch(k))) for k, v in value.items()}
    if isinstance(value, list):
        return [_scaled(v, side, inside) for v in value]
    return value * _FACTOR if inside and isinstance(value, float) else value
