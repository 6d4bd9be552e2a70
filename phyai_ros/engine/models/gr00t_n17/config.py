# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7's config.json, parsed. Every dimension comes from here, so that the published 3 B
model and a small one are the same code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phyai_ros.engine.fields import LEAST, check_fields
from phyai_ros.engine.models.gr00t_n17.backbone import Backbone, TextConfig, VisionConfig
from phyai_ros.engine.types import MisfitError, PolicyError

_HEAD_DEFAULTS: dict[str, Any] = {
    "backbone_embedding_dim": 2048,
    "select_layer": 16,
    "max_state_dim": 132,
    "max_action_dim": 132,
    "action_horizon": 40,
    "hidden_size": 1024,
    "input_embedding_dim": 1536,
    "state_history_length": 1,
    "add_pos_embed": True,
    "use_vlln": True,
    "max_seq_len": 1024,
    "use_alternate_vl_dit": True,
    "attend_text_every_n_blocks": 2,
    "num_inference_timesteps": 4,
    "num_timestep_buckets": 1000,
    "max_num_embodiments": 32,
    "rtc_ramp_rate": 6.0,
    "noise_beta_alpha": 1.5,
    "noise_beta_beta": 1.0,
    "noise_s": 0.999,
    "diffusion_model_cfg": {
        "num_layers": 32,
        "num_attention_heads": 32,
        "attention_head_dim": 48,
        "output_dim": 1024,
        "interleave_self_attention": True,
    },
    "vl_self_attention_cfg": {
        "num_layers": 4,
        "num_attention_heads": 32,
        "attention_head_dim": 64,
    },
}
"""The published checkpoint's values, for keys that config.json leaves out."""


@dataclass(frozen=True)
class DitConfig:
    """A stack of transformer blocks of the action head."""

    layers: int = field(metadata={LEAST: 0})
    heads: int
    head_dim: int
    output: int = field(default=0, metadata={LEAST: 0})
    interleave: bool = True

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim


@dataclass(frozen=True)
class GrootConfig:
    """The whole model's sizes. horizon: rows that the head denoises. text_every: where they
    alternate, of so many cross-attending blocks one reads words, the others images. buckets: of
    flow time. noise_beta, noise_s: of training alone."""

    text: TextConfig
    vision: VisionConfig
    dit: DitConfig
    vl_self_attention: DitConfig
    image_token_id: int = field(metadata={LEAST: 0})
    vision_start_id: int = field(metadata={LEAST: 0})
    vision_end_id: int = field(metadata={LEAST: 0})
    backbone_dim: int
    max_state_dim: int
    max_action_dim: int
    horizon: int
    hidden: int
    embedding: int
    state_history: int
    add_pos_embed: bool
    use_vlln: bool
    max_seq_len: int
    alternate: bool
    text_every: int
    steps: int
    buckets: int
    embodiments: int
    rtc_ramp_rate: float
    noise_beta: tuple[float, float]
    noise_s: float

    @staticmethod
    def parse(
        config: Mapping[str, Any], where: str, architecture: Mapping[str, Any] | None = None
    ) -> GrootConfig:
        """config.json's object. architecture: ``{"backbone": {...}}`` of architecture.json, which
        a checkpoint with another backbone than the published one carries. Raises PolicyError naming
        ``where`` and the key."""
        head = {**_HEAD_DEFAULTS, **config}
        return _parse(head, where, Backbone.of(config, where, architecture, head["select_layer"]))


def _parse(head: Mapping[str, Any], where: str, backbone: Backbone) -> GrootConfig:
    try:
        dit, vl = head["diffusion_model_cfg"], head["vl_self_attention_cfg"] or {"num_layers": 0}
        config = GrootConfig(
            text=backbone.text,
            vision=backbone.vision,
            dit=_dit(dit, dit["output_dim"], bool(dit.get("interleave_self_attention", False))),
            vl_self_attention=_dit(vl, 0, True),
            image_token_id=backbone.image_token_id,
            vision_start_id=backbone.vision_start_id,
            vision_end_id=backbone.vision_end_id,
            backbone_dim=head["backbone_embedding_dim"],
            max_state_dim=head["max_state_dim"],
            max_action_dim=head["max_action_dim"],
            horizon=head["action_horizon"],
            hidden=head["hidden_size"],
            embedding=head["input_embedding_dim"],
            state_history=head["state_history_length"],
            add_pos_embed=head["add_pos_embed"],
            use_vlln=head["use_vlln"],
            max_seq_len=head["max_seq_len"],
            alternate=head["use_alternate_vl_dit"],
            text_every=head["attend_text_every_n_blocks"],
            steps=head["num_inference_timesteps"],
            buckets=head["num_timestep_buckets"],
            embodiments=head["max_num_embodiments"],
            rtc_ramp_rate=float(head["rtc_ramp_rate"]),
            noise_beta=(float(head["noise_beta_alpha"]), float(head["noise_beta_beta"])),
            noise_s=float(head["noise_s"]),
        )
    except (KeyError, IndexError) as error:
        raise PolicyError(f"{where}: key {error} missing") from None
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{where}: {error}") from None
    check_fields(config, where)
    _check(config, head, where)
    return config


def _dit(cfg: Mapping[str, Any], output: int, interleave: bool) -> DitConfig:
    return DitConfig(
        layers=cfg["num_layers"],
        heads=cfg.get("num_attention_heads", 1),
        head_dim=cfg.get("attention_head_dim", 1),
        output=output,
        interleave=interleave,
    )


def _check(config: GrootConfig, head: Mapping[str, Any], where: str) -> None:
    """What the architecture takes for granted; and settings that change it and are not built."""
    pairs = (
        ("diffusion_model_cfg heads x head_dim", config.dit.inner, config.embedding),
        ("backbone_embedding_dim", config.backbone_dim, config.text.hidden),
        ("diffusion_model_cfg.output_dim", config.dit.output, config.hidden),
        ("vision out_hidden_size", config.vision.out_hidden, config.text.hidden),
    )
    for name, found, expected in pairs:
        if found != expected:
            raise MisfitError(f"{where}: {name}: expected {expected}, found {found}")
    if config.vl_self_attention.layers and config.vl_self_attention.inner != config.backbone_dim:
        raise PolicyError(
            f"{where}: vl_self_attention_cfg heads x head_dim: expected {config.backbone_dim}, "
            f"found {config.vl_self_attention.inner}"
        )
    if config.horizon > config.max_seq_len and config.add_pos_embed:
        raise PolicyError(
            f"{where}: action_horizon {config.horizon} is longer than the position table "
            f"(max_seq_len {config.max_seq_len})"
        )
    for cfg in ("diffusion_model_cfg", "vl_self_attention_cfg"):
        table = (head[cfg] or {}).get("positional_embeddings")
        if table is not None:
            raise PolicyError(f"{where}: {cfg}.positional_embeddings {table!r} is not supported")
    for key in ("apply_sincos_state_encoding", "reproject_vision", "exclude_state", "use_mean_std"):
        if head.get(key):
            raise PolicyError(f"{where}: {key} = {head[key]!r} is not supported; expected false")
    if config.alternate and not config.dit.interleave:
        raise PolicyError(f"{where}: use_alternate_vl_dit needs interleave_self_attention")
