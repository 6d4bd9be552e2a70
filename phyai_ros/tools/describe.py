# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a checkpoint is, without loading its weights: keys and shapes are checked against the model
on torch's meta device, which allocates nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from phyai_ros.engine import hub, registry
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.policy import DTYPES, FP8
from phyai_ros.engine.quantize import into_fp8, size
from phyai_ros.engine.types import EmbodimentError, FeatureSpec, PolicyError, PolicySpec

_META = torch.device("meta")
_MOST_EMBODIMENTS = 64


@dataclass(frozen=True)
class Described:
    """spec: one an embodiment. stored: safetensors dtype -> number of values. memory: precision ->
    bytes that the weights take once loaded."""

    checkpoint: Checkpoint
    specs: tuple[PolicySpec, ...]
    stored: dict[str, int]
    memory: dict[str, int]


def describe(
    name: str, *, family: str | None, embodiment: str | None, revision: str | None
) -> Described:
    """Raises PolicyError: everything that loading would refuse. embodiment: one, or None for all
    that the checkpoint has."""
    if family is not None:
        registry.resolve(family)  # refused before anything is downloaded
    checkpoint = Checkpoint(hub.resolve(name, revision))
    family = registry.settle(checkpoint, family)

    def build(tag: str | None, dtype: torch.dtype) -> Any:
        return registry.build(family, checkpoint, embodiment=tag, device=_META, dtype=dtype)

    tags: tuple[str | None, ...] = (embodiment,)
    try:
        first = build(embodiment, torch.float32)
    except EmbodimentError as error:
        if embodiment is not None or not error.choices:
            raise
        tags = error.choices[:_MOST_EMBODIMENTS]
        first = build(tags[0], torch.float32)
    specs = [first.spec, *(build(tag, torch.float32).spec for tag in tags[1:])]
    memory = {}
    for name, dtype in DTYPES.items():
        model = build(tags[0], dtype).model
        if name == FP8:
            try:
                into_fp8(model, family, _META)
            except PolicyError:  # this family has no FP8 form
                continue
        memory[name] = _bytes(model)
    return Described(checkpoint, tuple(specs), _stored(checkpoint), memory)


def _bytes(model: Any) -> int:
    if not isinstance(model, nn.Module):
        raise PolicyError(f"{type(model).__name__} is not a torch module: its size is not known")
    return size(model)


def _stored(checkpoint: Checkpoint) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for path in sorted(set(checkpoint.files.values())):
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118  (not a mapping)
                piece = file.get_slice(key)
                size = 1
                for n in piece.get_shape():
                    size *= n
                counts[str(piece.get_dtype())] += size
    return dict(counts)


def as_json(described: Described) -> dict[str, Any]:
    """For programs; arrays as lists, times in seconds, sizes in bytes."""
    checkpoint = described.checkpoint
    return {
        "checkpoint": str(checkpoint.root),
        "family": described.specs[0].family,
        "weight_files": sorted(p.name for p in set(checkpoint.files.values())),
        "weight_file_bytes": checkpoint.nbytes,
        "stored_values": described.stored,
        "weights_in_memory_bytes": described.memory,
        "embodiments": [_spec(spec) for spec in described.specs],
    }


def _spec(spec: PolicySpec) -> dict[str, Any]:
    return {
        "embodiment": spec.embodiment,
        "cameras": [
            {
                "key": key,
                "optional": key in spec.optional_cameras,
                "size": list(spec.camera_sizes[key]) if key in spec.camera_sizes else None,
                "least_size": list(spec.least_sizes.get(key, (1, 1))),
            }
            for key in spec.cameras
        ],
        "state": [_feature(f) for f in spec.state],
        "action": [_feature(f) for f in spec.action],
        "state_names": list(spec.state_names),
        "action_names": list(spec.action_names),
        "horizon": spec.horizon,
        "step": spec.step,
        "denoising_steps": spec.denoising_steps,
        "model_action_dim": spec.model_action_dim,
        "history": spec.history,
        "ignores": list(spec.ignores),
        "guidance_methods": list(spec.guidance_methods),
        "max_prompt_tokens": spec.max_prompt_tokens,
        "image_size": list(spec.image_size) if spec.image_size else None,
    }


def _feature(feature: FeatureSpec) -> dict[str, Any]:
    return {
        "name": feature.name,
        "size": feature.size,
        "normalisation": feature.normalisation,
        "relative": feature.relative,
        "statistics": {k: v.tolist() for k, v in feature.statistics.items()},
    }
