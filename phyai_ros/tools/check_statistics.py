# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The same checkpoint with other normalisation statistics, to see that they count."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from phyai_ros.engine.models.lerobot_legacy import WEIGHTS
from phyai_ros.engine.models.lerobot_pipeline import POSTPROCESSOR, PREPROCESSOR

_FACTOR = 1.1
_JSON = ("statistics.json", "norm_stats.json")
_STEPS = (PREPROCESSOR, POSTPROCESSOR)
_SIDES = {
    "state": re.compile(r"(observation\.)?(environment_)?state(\..*)?"),
    "action": re.compile(r"(relative_)?actions?(\..*)?"),
}
"""Keys of statistics files that are about the state or the action."""
_LEGACY = re.compile(r"(?:un)?normalize_\w+\.buffer_(\w+)\.\w+")
"""Keys of weights that are statistics; the feature's, with _ for its dots."""


def altered(checkpoint: Path, side: str, copy: Path) -> list[Path]:
    """Fill ``copy`` with the checkpoint's files, but with the statistics of one side
    (state or action) scaled; not shifted, for zeros may be padding. -> the files that differ."""
    changed = []
    named = _state_files(checkpoint)
    for file in sorted(p for p in checkpoint.rglob("*") if p.is_file()):
        target = copy / file.relative_to(checkpoint)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.name in _JSON:
            differs = _alter_json(file, target, _SIDES[side])
        elif file.parent == checkpoint and file.name in _STEPS:
            differs = _alter_steps(file, target, _SIDES[side])
        elif file.parent == checkpoint and file.name in named:
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


def _state_files(checkpoint: Path) -> set[str]:
    """LeRobot's: what the steps name; without steps, statistics are among the weights."""
    steps = [checkpoint / name for name in _STEPS if (checkpoint / name).is_file()]
    if not steps:
        return {WEIGHTS}
    return {
        str(step["state_file"])
        for file in steps
        for step in json.loads(file.read_text())["steps"]
        if step.get("state_file")
    }


def _alter_tensors(file: Path, target: Path, side: re.Pattern[str]) -> bool:
    with safe_open(file, framework="pt") as held:
        names = [name for name in held.keys() if side.fullmatch(_feature(name))]  # noqa: SIM118
    if not names:
        return False
    tensors = load_file(file)
    for name in names:
        if tensors[name].is_floating_point():  # and no count
            tensors[name] = tensors[name] * _FACTOR
    save_file(tensors, target)
    return True


def _feature(name: str) -> str:
    legacy = _LEGACY.fullmatch(name)
    return legacy[1].replace("observation_", "observation.") if legacy else name


def _alter_steps(file: Path, target: Path, side: re.Pattern[str]) -> bool:
    """GR00T's groups, which LeRobot keeps in the steps' own description."""
    text = file.read_text()
    content, scaled = json.loads(text), json.loads(text)
    for step in scaled["steps"]:
        config = step.get("config") or {}
        if "raw_stats" in config:
            config["raw_stats"] = _scaled(config["raw_stats"], side, False)
    if scaled == content:
        return False
    target.write_text(json.dumps(scaled))
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
