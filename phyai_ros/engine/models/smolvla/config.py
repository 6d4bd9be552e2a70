# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA's config.json as LeRobot writes it, and the sizes that its backbone's name implies.

A checkpoint of another size carries them in ``architecture.json`` (vlm.text_config,
vlm.vision_config, vlm.scale_factor, lm_expert), with the backbone's own field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from phyai_ros.engine.fields import LEAST, check_fields
from phyai_ros.engine.types import MisfitError, PolicyError


@dataclass(frozen=True)
class TextConfig:
    """A Llama-layout decoder."""

    hidden_size: int = 960
    intermediate_size: int = 2560
    num_attention_heads: int = 15
    num_key_value_heads: int = 5
    head_dim: int = 64
    vocab_size: int = 49280
    rms_norm_eps: float = 1e-5
    num_hidden_layers: int = 32
    """Of the whole backbone; SmolVLA keeps the first ``num_vlm_layers``."""


@dataclass(frozen=True)
class VisionConfig:
    """A SigLIP tower."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    patch_size: int = 16
    image_size: int = 512
    layer_norm_eps: float = 1e-6

    @property
    def side(self) -> int:
        """Patches along one side of the image that the tower was trained with."""
        return self.image_size // self.patch_size


@dataclass(frozen=True)
class VlmConfig:
    """scale_factor: pixel-shuffle ratio of the connector."""

    text: TextConfig = TextConfig()
    vision: VisionConfig = VisionConfig()
    scale_factor: int = 4


_SMALL_TEXT = TextConfig(
    hidden_size=576,
    intermediate_size=1536,
    num_attention_heads=9,
    num_key_value_heads=3,
    num_hidden_layers=30,
)
_LARGE = VlmConfig(
    TextConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_attention_heads=32,
        num_key_value_heads=32,
        num_hidden_layers=24,
    ),
    VisionConfig(
        hidden_size=1152,
        intermediate_size=4304,
        num_hidden_layers=27,
        num_attention_heads=16,
        patch_size=14,
        image_size=384,
    ),
    scale_factor=3,
)
BACKBONES = {
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": VlmConfig(text=_SMALL_TEXT),
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": VlmConfig(),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": _LARGE,
}


@dataclass(frozen=True)
class SmolVlaConfig:
    """expert_hidden_size, expert_intermediate_size: the action expert's widths; its heads are the
    backbone's. resize_imgs_with_padding: (width, height), None for images as they come.
    image_marks: token ids that stand before and after an image (``add_image_special_tokens``): the
    fake image token and the global image's; None where there are none. num_vlm_layers: of the
    backbone, at least 1 here; none or more than it has means all of them."""

    vlm: VlmConfig
    expert_hidden_size: int
    expert_intermediate_size: int
    chunk_size: int = 50
    n_action_steps: int = 50
    max_state_dim: int = 32
    max_action_dim: int = 32
    resize_imgs_with_padding: tuple[int, int] | None = (512, 512)
    empty_cameras: int = field(default=0, metadata={LEAST: 0})
    tokenizer_max_length: int = 48
    num_steps: int = 10
    vlm_model_name: str = "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"
    add_image_special_tokens: bool = False
    image_marks: tuple[int, int] | None = field(default=None, metadata={LEAST: 0})
    attention_mode: str = "cross_attn"
    prefix_length: int = field(default=-1, metadata={LEAST: -1})
    pad_language_to: str = "longest"
    num_expert_layers: int = field(default=-1, metadata={LEAST: -1})
    num_vlm_layers: int = 16
    self_attn_every_n_layers: int = field(default=2, metadata={LEAST: -1})
    min_period: float = 4e-3
    max_period: float = 4.0

    @classmethod
    def parse(
        cls, config: Mapping[str, Any], architecture: Mapping[str, Any] | None, where: str
    ) -> SmolVlaConfig:
        """architecture: architecture.json where there is one. where: names the directory in a
        PolicyError."""
        sizes = {"vlm", "expert_hidden_size", "expert_intermediate_size", "image_marks"}
        known = {f.name for f in fields(cls)} - sizes
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in config.items() if k in known
        }
        name = values.get("vlm_model_name", cls.vlm_model_name)
        vlm = _backbone(name, architecture, where)
        width = int(vlm.text.hidden_size * float(config.get("expert_width_multiplier", 0.75)))
        expert = (architecture or {}).get("lm_expert", {})
        layers = values.get("num_vlm_layers", cls.num_vlm_layers)
        if isinstance(layers, int) and not 0 < layers <= vlm.text.num_hidden_layers:
            values["num_vlm_layers"] = vlm.text.num_hidden_layers
        result = cls(
            vlm=vlm,
            expert_hidden_size=int(expert.get("hidden_size", width)),
            expert_intermediate_size=int(expert.get("intermediate_size", _feed_forward(width))),
            **values,
        )
        check_fields(result, f"{where}/config.json")
        result._check(config, f"{where}/config.json")
        return result

    @property
    def image_side(self) -> int:
        """Pixels along a side of the square that the image tower sees."""
        given = self.resize_imgs_with_padding
        return self.vlm.vision.image_size if given is None else given[0]

    @property
    def patches_side(self) -> int:
        """Patches along it; pixels beyond the last whole patch are not looked at."""
        return self.image_side // self.vlm.vision.patch_size

    @property
    def image_tokens(self) -> int:
        """Of one image, without its marks."""
        return (self.patches_side // self.vlm.scale_factor) ** 2

    @property
    def expert_of(self) -> tuple[int | None, ...]:
        """Per backbone layer, the expert layer that runs beside it, None where there is none."""
        count = self.num_expert_layers if self.num_expert_layers > 0 else self.num_vlm_layers
        every = self.num_vlm_layers // count
        return tuple(i // every if i % every == 0 else None for i in range(self.num_vlm_layers))

    def attends_itself(self, layer: int) -> bool:
        """Whether the expert at this backbone layer attends to prefix and actions together;
        else it only reads the prefix (cross-attention)."""
        if self.attention_mode == "self_attn":
            return True
        every = self.self_attn_every_n_layers
        return every > 0 and layer % every == 0

    def _check(self, config: Mapping[str, Any], file: str) -> None:
        for flag in ("adapt_to_pi_aloha", "use_delta_joint_actions_aloha"):
            if config.get(flag):
                raise PolicyError(
                    f"{file}: {flag} is true, which is not supported; expected false (give the "
                    "robot's YAML the sign and gripper mapping instead)"
                )
        if self.attention_mode not in ("cross_attn", "self_attn"):
            raise PolicyError(
                f"{file}: attention_mode is {self.attention_mode!r}; known: cross_attn, self_attn"
            )
        if self.num_expert_layers > 0 and self.num_vlm_layers % self.num_expert_layers:
            raise MisfitError(
                f"{file}: num_expert_layers {self.num_expert_layers} must divide num_vlm_layers "
                f"{self.num_vlm_layers}"
            )
        for layer, expert in enumerate(self.expert_of):
            if self.attends_itself(layer) and expert is None:
                raise MisfitError(
                    f"{file}: layer {layer} attends to the actions but has no expert layer "
                    f"(num_expert_layers {self.num_expert_layers}, self_attn_every_n_layers "
                    f"{self.self_attn_every_n_layers})"
                )
        given, scale = self.resize_imgs_with_padding, self.vlm.scale_factor
        cells = self.patches_side
        if (given is not None and given[0] != given[1]) or cells < scale or cells % scale:
            raise MisfitError(
                f"{file}: resize_imgs_with_padding is {given if given is None else list(given)}; "
                f"expected a square of whole {scale} x {scale} patches of "
                f"{self.vlm.vision.patch_size} pixels, such as {[self.vlm.vision.image_size] * 2}"
            )


def _backbone(name: str, architecture: Mapping[str, Any] | None, where: str) -> VlmConfig:
    if architecture is None or "vlm" not in architecture:
        if name not in BACKBONES:
            raise PolicyError(
                f"{where}/config.json: vlm_model_name is {name!r}, whose sizes are not known; "
                f"known: {', '.join(BACKBONES)}; or put an architecture.json beside it"
            )
        return BACKBONES[name]
    sizes = architecture["vlm"]
    base = BACKBONES.get(name, VlmConfig())
    try:
        text = _override(base.text, sizes["text_config"])
        vision = _override(base.vision, sizes["vision_config"])
        scale = int(sizes.get("scale_factor", base.scale_factor))
    except (KeyError, TypeError) as error:
        raise PolicyError(
            f"{where}/architecture.json: vlm needs text_config and vision_config ({error})"
        ) from None
    check_fields(text, f"{where}/architecture.json", "vlm.text_config")
    check_fields(vision, f"{where}/architecture.json", "vlm.vision_config")
    if vision.hidden_size % vision.num_attention_heads:
        raise PolicyError(
            f"{where}/architecture.json: vlm.vision_config: hidden_size {vision.hidden_size} must "
            f"be a multiple of num_attention_heads {vision.num_attention_heads}"
        )
    if scale < 1 or vision.side % scale or vision.image_size % vision.patch_size:
        raise PolicyError(
            f"{where}/architecture.json: image_size {vision.image_size} must be a multiple of "
            f"patch_size {vision.patch_size} times scale_factor {scale}"
        )
    return VlmConfig(text, vision, scale)


def _override(base: Any, given: Mapping[str, Any]) -> Any:
    return replace(base, **{f.name: given[f.name] for f in fields(base) if f.name in given})


def _feed_forward(width: int) -> int:
    """Two thirds of four times the width, up to a multiple of 256 (Llama's rule)."""
    return 256 * -(-(int(2 * width / 3) * 4) // 256)
