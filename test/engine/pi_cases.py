# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The pi0 and pi0.5 fixtures, read and run; shared by test_pi_*.py and test_rtc_*.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from golden import GOLDEN, cases, tensors
from safetensors.torch import load_file, save_file

from phyai_ros.engine.models.paligemma.flow import FlowPolicy, Inputs
from phyai_ros.engine.types import Observation

FIXTURES = ("pi0", "pi05", "pi0_openpi", "pi05_openpi")
LEROBOT = ("pi0", "pi05")


def names(end_to_end: bool, fixtures: tuple[str, ...] = FIXTURES) -> list[tuple[str, str]]:
    """(fixture, case) of every case of one kind; empty where the fixtures are not there."""
    if not GOLDEN.is_dir():
        return []
    return [
        (fixture, case["name"])
        for fixture in fixtures
        for case in cases(fixture)["cases"]
        if ("e2e.noise" in case["tensors"]) == end_to_end
    ]


def meta(fixture: str, case: str) -> dict[str, Any]:
    return next(c for c in cases(fixture)["cases"] if c["name"] == case)


def inputs(arrays: dict[str, torch.Tensor], state_width: int) -> Inputs:
    """A case's model inputs, images and tokens made by the reference."""
    cameras = range(sum(key.startswith("images.") for key in arrays))
    images = torch.stack([arrays[f"images.{i}"] for i in cameras], 1)
    mask = torch.stack([arrays[f"image_masks.{i}"] for i in cameras], 1)
    state = arrays.get("state", torch.zeros(len(images), state_width))
    return Inputs(images, mask, arrays["tokens"], arrays["token_mask"], state)


@torch.no_grad()
def sample(
    model: FlowPolicy, batch: Inputs, noise: torch.Tensor, steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(first velocity, x after every step [B, steps, horizon, width]) by plain Euler."""
    prefix = model.prefix(batch, model.vision(batch))
    constants = model.constants(steps)
    x, trace, first = noise, [], None
    for step in range(steps):
        velocity = model.predict(x, step, prefix, constants)
        first = velocity if first is None else first
        x = x - velocity / steps
        trace.append(x)
    assert first is not None
    return first, torch.stack(trace, 1)


def run(model: FlowPolicy, fixture: str, case: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A case through the model: (first velocity, actions)."""
    arrays = tensors(fixture, case)
    batch = inputs(arrays, model.config.state_width)
    first, trace = sample(model, batch, arrays["noise"], meta(fixture, case)["num_steps"])
    return first, trace[:, -1]


def observation(fixture: str, case: str) -> Observation:
    """The raw observation of an end-to-end case."""
    arrays, about = tensors(fixture, case), meta(fixture, case)
    prefix = "observation.images." if fixture in LEROBOT else ""
    raw = {k.removeprefix("e2e.raw."): v for k, v in arrays.items() if k.startswith("e2e.raw.")}
    images = {prefix + k: v.numpy() for k, v in raw.items()}
    return Observation(images, arrays["e2e.state"].numpy(), about.get("task") or about["prompt"])


def copy(fixture: str, where: Path) -> Path:
    """A writable copy of a fixture's checkpoint."""
    target = where / fixture
    shutil.copytree(GOLDEN / fixture, target, ignore=shutil.ignore_patterns("cases.*"))
    return target


def edit_json(path: Path, **changes: Any) -> None:
    """Set top-level keys; a value of None removes the key."""
    content = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            content.pop(key, None)
        else:
            content[key] = value
    path.write_text(json.dumps(content))


def edit_step(path: Path, step: str, **config: Any) -> None:
    """Change one processor step's config in a policy_*processor.json."""
    content = json.loads(path.read_text())
    (found,) = [s for s in content["steps"] if s["registry_name"] == step]
    found["config"].update(config)
    path.write_text(json.dumps(content))


def edit_weights(directory: Path, edit: Any) -> None:
    """Rewrite model.safetensors through ``edit(dict) -> dict``."""
    path = directory / "model.safetensors"
    save_file(edit(load_file(path)), path)
