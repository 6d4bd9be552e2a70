# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7's own preprocessing, conditions and action conversion, and how it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import tokenize
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.guidance import RTC_IDENTITY, RTC_OVERLAP, RTC_VJP
from phyai_ros.engine.image import images_in_order
from phyai_ros.engine.models.gr00t_n17 import sidecars as sidecars_
from phyai_ros.engine.models.gr00t_n17.codec import Codec
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.images import ImageRules, patches_of
from phyai_ros.engine.models.gr00t_n17.layout import Layout, from_ids
from phyai_ros.engine.models.gr00t_n17.model import GrootModel, Inputs
from phyai_ros.engine.models.gr00t_n17.vision import Grid
from phyai_ros.engine.types import Observation, PolicyError, PolicySpec

IGNORED_KEYS = (r"(_groot_model\.)?backbone\.model\.lm_head\.weight",)
_PREFIX = "_groot_model."
_DEFAULT_INSTRUCTION = "Perform the task."


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> GrootAdapter:
    """Raises PolicyError naming file and key of whatever does not fit."""
    config = read_config(checkpoint)
    sidecars = sidecars_.read(checkpoint, embodiment)
    tokenizer = tokenize.load(checkpoint, checkpoint.config.get("model_name") or _BACKBONE)
    adapter = GrootAdapter(checkpoint, config, sidecars, tokenizer, device)
    with torch.device("meta"):
        model = GrootModel(config)
    checkpoint.fill(
        model,
        device=device,
        dtype=dtype,
        rename=lambda key: key.removeprefix(_PREFIX),
        ignore=IGNORED_KEYS,
    )
    adapter.model = model.eval()
    return adapter


_BACKBONE = "nvidia/Cosmos-Reason2-2B"


def read_config(checkpoint: Checkpoint) -> GrootConfig:
    """The model's dimensions: config.json, and architecture.json where the backbone is not the
    published one. lerobot's config.json does not hold them all: there the weights' shapes do."""
    where = str(checkpoint.root / "config.json")
    architecture = None
    if checkpoint.has("architecture.json"):
        architecture = checkpoint.json("architecture.json")
    config: Mapping[str, Any] = checkpoint.config
    if config.get("type") == "groot":
        if str(config.get("model_version", "n1.7")).lower() not in ("n1.7", "n1_7", "n1d7", "n17"):
            raise PolicyError(f"{where}: model_version {config['model_version']!r}; expected n1.7")
        config = _from_shapes(checkpoint)
    return GrootConfig.parse(config, where, architecture)


def _from_shapes(checkpoint: Checkpoint) -> dict[str, Any]:
    """What lerobot's config.json leaves to the base model: from the weights, and the published
    model's head sizes for what shapes cannot tell."""
    shapes = {key.removeprefix(_PREFIX): shape for key, shape in checkpoint.shapes.items()}

    def shape(key: str) -> tuple[int, ...]:
        if key not in shapes:
            raise PolicyError(f"{checkpoint.root}: no weight {key!r}, so its sizes are unknown")
        return shapes[key]

    def count(stem: str) -> int:
        return len({k[len(stem) :].split(".")[0] for k in shapes if k.startswith(stem)})

    config = dict(checkpoint.config)
    embodiments, action, embedding = shape("action_head.action_encoder.W1.W")
    _, state, hidden = shape("action_head.state_encoder.layer1.W")
    vl, dit = "action_head.vl_self_attention.transformer_blocks.", "action_head.model."
    backbone = shape("backbone.model.model.language_model.embed_tokens.weight")[1]
    position = shapes.get("action_head.position_embedding.weight")
    config.update(
        max_num_embodiments=embodiments,
        max_action_dim=action,
        max_state_dim=state,
        input_embedding_dim=embedding,
        hidden_size=hidden,
        backbone_embedding_dim=backbone,
        select_layer=count("backbone.model.model.language_model.layers."),
        use_vlln="action_head.vlln.weight" in shapes,
        add_pos_embed=position is not None,
        max_seq_len=position[0] if position else 0,
        action_horizon=int(config.get("chunk_size") or 40),
        num_inference_timesteps=int(config.get("num_inference_timesteps") or 4),
        rtc_ramp_rate=float(config.get("rtc_ramp_rate") or 6.0),
        diffusion_model_cfg={
            "num_layers": count(dit + "transformer_blocks."),
            "num_attention_heads": embedding // 48,
            "attention_head_dim": 48,
            "output_dim": shape(dit + "proj_out_2.weight")[0],
            "interleave_self_attention": True,
            **(config.get("diffusion_model_cfg") or {}),
        },
        vl_self_attention_cfg={
            "num_layers": count(vl),
            "num_attention_heads": backbone // 64,
            "attention_head_dim": 64,
            **(config.get("vl_self_attention_cfg") or {}),
        },
    )
    return config


class GrootAdapter:
    """One embodiment of a checkpoint. ``model`` is set by ``load``."""

    solver = "flow_forward"

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: GrootConfig,
        sidecars: sidecars_.Sidecars,
        tokenizer: tokenize.Tokenizer,
        device: torch.device,
    ):
        self.config, self.device = config, device
        self.model: GrootModel
        self.sidecars = sidecars
        self.rtc_ramp_rate = config.rtc_ramp_rate
        self.codec = Codec(sidecars, config.max_state_dim, config.max_action_dim, config.horizon)
        preprocessor = "preprocessor_config.json"
        extra = checkpoint.json(preprocessor) if checkpoint.has(preprocessor) else None
        self.rules = ImageRules.parse(sidecars.kwargs, extra, sidecars.where["images"])
        self._tokenizer = tokenizer
        self._layouts: dict[tuple[tuple[str, tuple[Grid, ...]], ...], Layout] = {}
        video = sidecars.modality.get("video") or {}
        self.cameras = tuple(video.get("modality_keys") or ())
        self.frames = max(1, len(video.get("delta_indices") or [0]))
        self._check()
        self.spec = PolicySpec(
            family="gr00t_n17",
            checkpoint=str(checkpoint.root),
            cameras=self.cameras,
            optional_cameras=(),
            state=tuple(g.spec for g in self.codec.state),
            action=tuple(g.spec for g in self.codec.action),
            horizon=self.codec.horizon,
            denoising_steps=config.steps,
            model_action_dim=config.max_action_dim,
            embodiment=sidecars.embodiment,
            embodiments=sidecars.embodiments,
            guidance_methods=(RTC_OVERLAP, RTC_IDENTITY, RTC_VJP),
        )

    def _check(self) -> None:
        where = self.sidecars.where
        if not self.cameras:
            raise PolicyError(f"{where['modality']}.video.modality_keys missing")
        if not 0 <= self.sidecars.embodiment_id < self.config.embodiments:
            raise PolicyError(
                f"{where['ids']}: embodiment {self.sidecars.embodiment!r} has id "
                f"{self.sidecars.embodiment_id}; the model has 0 to {self.config.embodiments - 1}"
            )
        if self.config.state_history != 1:
            raise PolicyError(
                f"config.json: state_history_length {self.config.state_history}: expected 1"
            )
        for token, expected in (
            ("<|image_pad|>", self.config.image_token_id),
            ("<|vision_start|>", self.config.vision_start_id),
            ("<|vision_end|>", self.config.vision_end_id),
        ):
            found = self._tokenizer.id(token)
            if found != expected:
                raise PolicyError(
                    f"tokenizer: token {token!r}: expected id {expected}, found {found}"
                )

    # -- observation -> inputs -------------------------------------------------------------------
    def prepare(self, observations: Sequence[Observation]) -> Inputs:
        images = []
        for observation in observations:
            views = images_in_order(observation.images, self.cameras)
            images += views * self.frames
        patches, grids = patches_of(images, self.rules, self.config.vision, self.device)
        each = len(self.cameras) * self.frames
        rows = tuple(
            (self.prompt(o.instruction), tuple(grids[i * each : (i + 1) * each]))
            for i, o in enumerate(observations)
        )
        state = np.stack([self.codec.encode_state(o.state) for o in observations])
        return Inputs(
            layout=self.layout(rows),
            patches=patches,
            state=torch.from_numpy(state)[:, None].to(self.device),
            embodiments=(self.sidecars.embodiment_id,) * len(observations),
        )

    def prompt(self, instruction: str) -> str:
        return formalise(instruction) if self.sidecars.formalize_language else (
            instruction or _DEFAULT_INSTRUCTION
        )

    def layout(self, rows: tuple[tuple[str, tuple[Grid, ...]], ...]) -> Layout:
        """rows: each request's text and image grids. Kept: prompts seldom change."""
        known = self._layouts.get(rows)
        if known is None:
            merge = self.config.vision.merge
            tokens = [
                self._tokenizer.encode(chat(text, [h * w // merge**2 for h, w in grids]))
                for text, grids in rows
            ]
            ids, real = tokenize.pad(tokens, value=self._pad_id(), left=True)
            known = from_ids(
                ids, real, [g for _, grids in rows for g in grids],
                image_token=self.config.image_token_id, merge=merge, device=self.device,
            )
            if len(self._layouts) >= 64:
                self._layouts.clear()
            self._layouts[rows] = known
        return known

    def _pad_id(self) -> int:
        found = self._tokenizer.id("<|endoftext|>")
        return 0 if found is None else found

    # -- noise and actions -----------------------------------------------------------------------
    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return (batch, self.config.horizon, self.config.max_action_dim)

    def decode(
        self, actions: torch.Tensor, observations: Sequence[Observation]
    ) -> list[np.ndarray]:
        rows = actions.float().cpu().numpy()
        return [
            self.codec.decode(a, o.state) for a, o in zip(rows, observations, strict=True)
        ]

    def encode(self, actions: np.ndarray, observation: Observation) -> np.ndarray:
        return self.codec.encode(actions, observation.state)


def formalise(instruction: str) -> str:
    """Lower case, and nothing but letters, digits, underscores and spaces."""
    text = (instruction or _DEFAULT_INSTRUCTION).lower()
    return "".join(c for c in text if c.isalnum() or c.isspace() or c == "_")


def chat(text: str, image_tokens: Sequence[int]) -> str:
    """Qwen3-VL's template of one user message: the images, then the text."""
    images = "".join(
        f"<|vision_start|>{'<|image_pad|>' * count}<|vision_end|>" for count in image_tokens
    )
    return f"<|im_start|>user\n{images}{text}<|im_end|>\n"
