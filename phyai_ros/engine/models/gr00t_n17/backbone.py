# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The dimensions of GR00T N1.7's backbone, a Qwen3-VL: implied by its name, or told by the
architecture.json of a checkpoint with another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phyai_ros.engine.fields import LEAST, check_fields
from phyai_ros.engine.types import PolicyError

COSMOS_REASON2_2B: dict[str, Any] = {
    "image_token_id": 151655,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "text_config": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "rms_norm_eps": 1e-6,
        "rope_theta": 5000000,
        "rope_scaling": {"mrope_section": [24, 20, 20]},
    },
    "vision_config": {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 2048,
        "deepstack_visual_indexes": [5, 11, 17],
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
    },
}
"""Qwen3-VL-2B's published dimensions, which a real checkpoint implies by its ``model_name``."""

_BACKBONES = {"nvidia/Cosmos-Reason2-2B": COSMOS_REASON2_2B}
_QWEN_2B = "Qwen/Qwen3-VL-2B"
PUBLISHED = f"{', '.join(_BACKBONES)}, {_QWEN_2B}*"
"""For messages: the backbones of which everything is known here."""


def is_published(name: str) -> bool:
    """Whether a ``model_name`` is one of ``PUBLISHED``."""
    return name.rstrip("/") in _BACKBONES or name.startswith(_QWEN_2B)


@dataclass(frozen=True)
class TextConfig:
    """Qwen3's sizes; layers: those that are kept. mrope_section: frequencies by axis."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float
    rope_theta: float
    mrope_section: tuple[int, int, int] = field(metadata={LEAST: 0})


@dataclass(frozen=True)
class VisionConfig:
    """Qwen3-VL's tower; positions: entries of its square table. deepstack: its layers that the
    language model gets features of."""

    depth: int
    hidden: int
    intermediate: int
    heads: int
    positions: int
    out_hidden: int
    deepstack: tuple[int, ...] = field(metadata={LEAST: 0})
    patch: int
    merge: int
    temporal: int
    channels: int

    @property
    def patch_values(self) -> int:
        """Numbers of one patch vector: channels x temporal x patch x patch."""
        return self.channels * self.temporal * self.patch * self.patch


@dataclass(frozen=True)
class Backbone:
    """Both, and the token ids that stand for an image and its ends."""

    text: TextConfig
    vision: VisionConfig
    image_token_id: int
    vision_start_id: int
    vision_end_id: int

    @staticmethod
    def of(
        config: Mapping[str, Any], where: str, architecture: Mapping[str, Any] | None, keep: Any
    ) -> Backbone:
        """config: config.json's object, ``where`` its file. architecture: as for
        ``GrootConfig.parse``. keep: ``select_layer``, how many language layers stay. Raises
        PolicyError naming the file that a number is of, and its key."""
        given, source = _dimensions(config, where, architecture), where
        if architecture is not None and "backbone" in architecture:
            source = f"{where.removesuffix('config.json')}architecture.json: backbone"
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise PolicyError(
                f"{where}: select_layer: expected a whole number from 1, found {keep!r}"
            )
        text, vision = _towers(given, keep, source)
        names = ("image_token_id", "vision_start_token_id", "vision_end_token_id")
        return Backbone(text, vision, *(_token(given, name, source) for name in names))


def _dimensions(
    config: Mapping[str, Any], where: str, architecture: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    if architecture is not None and "backbone" in architecture:
        backbone: Mapping[str, Any] = architecture["backbone"]
        return backbone
    name = str(config.get("model_name", "nvidia/Cosmos-Reason2-2B")).rstrip("/")
    if is_published(name):
        return _BACKBONES.get(name, COSMOS_REASON2_2B)
    raise PolicyError(
        f"{where}: key 'model_name': backbone {name!r} has no known dimensions; known: "
        f"{PUBLISHED}; others need architecture.json beside it"
    )


def _token(backbone: Mapping[str, Any], key: str, source: str) -> int:
    value = backbone.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f"{source}.{key}: expected a whole number, found {value!r}")
    return value


def _towers(backbone: Mapping[str, Any], keep: int, source: str) -> tuple[TextConfig, VisionConfig]:
    try:
        text, vision = backbone["text_config"], backbone["vision_config"]
        rope = text.get("rope_scaling") or text["rope_parameters"]
        sections = tuple(int(n) for n in rope["mrope_section"])
        text_config = TextConfig(
            hidden=text["hidden_size"],
            intermediate=text["intermediate_size"],
            layers=min(keep, int(text["num_hidden_layers"])),
            heads=text["num_attention_heads"],
            kv_heads=text["num_key_value_heads"],
            head_dim=text["head_dim"],
            vocab=text["vocab_size"],
            eps=float(text["rms_norm_eps"]),
            rope_theta=float(text.get("rope_theta") or rope["rope_theta"]),
            mrope_section=(sections[0], sections[1], sections[2]),
        )
        vision_config = VisionConfig(
            depth=vision["depth"],
            hidden=vision["hidden_size"],
            intermediate=vision["intermediate_size"],
            heads=vision["num_heads"],
            positions=vision["num_position_embeddings"],
            out_hidden=vision["out_hidden_size"],
            deepstack=tuple(vision["deepstack_visual_indexes"]),
            patch=vision["patch_size"],
            merge=vision["spatial_merge_size"],
            temporal=vision["temporal_patch_size"],
            channels=vision.get("in_channels", 3),
        )
    except (KeyError, IndexError) as error:
        raise PolicyError(f"{source}: key {error} missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise PolicyError(f"{source}: {error}") from None
    check_fields(text_config, f"{source}.text_config")
    check_fields(vision_config, f"{source}.vision_config")
    if vision_config.hidden % vision_config.heads:
        raise PolicyError(
            f"{source}.vision_config: hidden_size {vision_config.hidden} must be a multiple of "
            f"num_heads {vision_config.heads}"
        )
    return text_config, vision_config
