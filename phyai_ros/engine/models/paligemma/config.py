# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Sizes of the parts that pi0 and pi0.5 share: SigLIP, Gemma, the action expert, the flow.

A published checkpoint implies most of them by a variant name; ``architecture.json`` beside
``config.json`` overrides them for smaller models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from phyai_ros.engine.fields import LEAST, check_fields
from phyai_ros.engine.types import MisfitError, PolicyError


@dataclass(frozen=True)
class SiglipConfig:
    """The image tower; the defaults are So400m/14."""

    width: int = 1152
    depth: int = 27
    mlp_width: int = 4304
    heads: int = 16
    patch_size: int = 14
    image_size: int = 224
    eps: float = 1e-6

    @property
    def patches(self) -> int:
        """Image tokens of one camera."""
        return (self.image_size // self.patch_size) ** 2


@dataclass(frozen=True)
class GemmaConfig:
    """A Gemma decoder; also the action expert, which has no vocabulary of its own."""

    width: int
    depth: int
    mlp_width: int
    heads: int = 8
    kv_heads: int = 1
    head_dim: int = 256
    vocabulary: int = 257152
    eps: float = 1e-6
    rope_theta: float = 10000.0


GEMMA_VARIANTS: Mapping[str, GemmaConfig] = {
    "gemma_2b": GemmaConfig(width=2048, depth=18, mlp_width=16384),
    "gemma_300m": GemmaConfig(width=1024, depth=18, mlp_width=4096),
}

_GEMMA_KEYS = {
    "hidden_size": "width",
    "num_hidden_layers": "depth",
    "intermediate_size": "mlp_width",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocabulary",
    "rms_norm_eps": "eps",
}
_SIGLIP_KEYS = {
    "hidden_size": "width",
    "num_hidden_layers": "depth",
    "intermediate_size": "mlp_width",
    "num_attention_heads": "heads",
    "patch_size": "patch_size",
    "image_size": "image_size",
    "layer_norm_eps": "eps",
}


@dataclass(frozen=True)
class FlowConfig:
    """What a pi0 or pi0.5 model is built from.

    horizon: rows of a chunk. action_width, state_width: the padded vectors the model sees.
    min_period, max_period: of the time embedding. trained_delay: most leading rows that the model
    was trained to take as already decided (arXiv 2512.05964); 0 where it was not.
    """

    vision: SiglipConfig
    language: GemmaConfig
    expert: GemmaConfig
    horizon: int = 50
    action_width: int = 32
    state_width: int = 32
    denoising_steps: int = 10
    min_period: float = 4e-3
    max_period: float = 4.0
    trained_delay: int = field(default=0, metadata={LEAST: 0})

    def check(self, file: str) -> None:
        """Raises PolicyError where the parts do not fit one another."""
        check_fields(self, file)
        if self.vision.image_size % self.vision.patch_size:
            raise MisfitError(
                f"{file}: image size {self.vision.image_size} is not a multiple of the patch "
                f"size {self.vision.patch_size}"
            )
        if self.vision.width % self.vision.heads:
            raise MisfitError(
                f"{file}: vision width {self.vision.width} is not a multiple of its "
                f"{self.vision.heads} heads"
            )
        # The expert reads the language model's keys and values, layer by layer.
        for name in ("depth", "heads", "kv_heads", "head_dim", "rope_theta"):
            ours, theirs = getattr(self.language, name), getattr(self.expert, name)
            if ours != theirs:
                raise MisfitError(
                    f"{file}: the language model and the action expert need the same {name}, "
                    f"found {ours} and {theirs}"
                )
        if not 0 <= self.trained_delay < self.horizon:
            raise PolicyError(
                f"{file}: rtc_training_max_delay must be below the horizon {self.horizon}, found "
                f"{self.trained_delay}"
            )


def gemma_variant(config: Mapping[str, Any], key: str, default: str, file: str) -> GemmaConfig:
    """The sizes that ``config[key]`` names."""
    name = config.get(key, default)
    if name not in GEMMA_VARIANTS:
        raise PolicyError(f"{file}: {key} is {name!r}; known: {', '.join(GEMMA_VARIANTS)}")
    return GEMMA_VARIANTS[name]


def override(config: FlowConfig, architecture: Mapping[str, Any], file: str) -> FlowConfig:
    """``config`` with the sizes of architecture.json, which has transformers' names."""
    paligemma = _section(architecture, "paligemma", file)
    expert = _section(architecture, "gemma_expert", file)
    language = _replace(config.language, _section(paligemma, "text_config", file), _GEMMA_KEYS)
    theta = paligemma.get("rope_theta", language.rope_theta)
    return replace(
        config,
        vision=_replace(config.vision, _section(paligemma, "vision_config", file), _SIGLIP_KEYS),
        language=replace(language, rope_theta=float(theta)),
        expert=replace(
            _replace(config.expert, expert, _GEMMA_KEYS),
            rope_theta=float(expert.get("rope_theta", theta)),
        ),
    )


def describe(config: FlowConfig) -> dict[str, Any]:
    """The architecture.json that ``override`` reads back to the same sizes."""
    return {
        "paligemma": {
            "text_config": _names(config.language, _GEMMA_KEYS),
            "vision_config": _names(config.vision, _SIGLIP_KEYS),
            "rope_theta": config.language.rope_theta,
        },
        "gemma_expert": {
            **_names(config.expert, _GEMMA_KEYS),
            "rope_theta": config.expert.rope_theta,
        },
    }


def _section(parent: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    section = parent.get(key, {})
    if not isinstance(section, Mapping):
        raise PolicyError(f"{file}: {key} must be an object, found {type(section).__name__}")
    return section


def _replace(config: Any, section: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    return replace(config, **{names[k]: v for k, v in section.items() if k in names})


def _names(config: Any, names: Mapping[str, str]) -> dict[str, Any]:
    return {key: getattr(config, name) for key, name in names.items()}
