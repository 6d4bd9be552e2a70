# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Weight keys of openpi's PyTorch checkpoints, and of LeRobot's, which put ``model.`` before them.

One table serves reading and writing: checkpoint key -> the rows of the parameter it fills.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import torch

from phyai_ros.engine.models.paligemma.config import FlowConfig, GemmaConfig
from phyai_ros.engine.models.paligemma.flow import FlowPolicy
from phyai_ros.engine.weights import Rows

_PALIGEMMA = "paligemma_with_expert.paligemma."
_EXPERT = "paligemma_with_expert.gemma_expert."
TIED = _PALIGEMMA + "lm_head.weight"
"""The language model's output layer: the embedding by another name, at times its only name."""
EMBEDDING = _PALIGEMMA + "model.language_model.embed_tokens.weight"
UNUSED = (r"(model\.)?paligemma_with_expert\.gemma_expert\.(lm_head|model\.embed_tokens)\.weight",)
"""Regular expressions of keys that no output depends on."""

# transformers before 4.52 had the tower, the projector and the language model one level higher.
_LEGACY = (
    (re.compile(r"paligemma\.(vision_tower|multi_modal_projector)\."), r"paligemma.model.\1."),
    (re.compile(r"paligemma\.language_model\.lm_head\."), "paligemma.lm_head."),
    (re.compile(r"paligemma\.language_model\.model\."), "paligemma.model.language_model."),
)


def canonical(key: str) -> str:
    """A key of either layout, old or new, as openpi writes it today."""
    key = key.removeprefix("model.")
    for pattern, new in _LEGACY:
        key = pattern.sub(new, key)
    return key


def key_table(config: FlowConfig, heads: Mapping[str, str], adaptive: bool) -> dict[str, Rows]:
    """Canonical key -> rows, for every parameter of a policy.

    heads: a family's own layers, checkpoint name -> module name. adaptive: whether the expert's
    norms are.
    """
    table = dict(_siglip(config))
    table[EMBEDDING] = Rows("language.embed.weight")
    language = _PALIGEMMA + "model.language_model."
    table.update(_gemma(config.language, language, "language.", adaptive=False))
    table.update(_gemma(config.expert, _EXPERT + "model.", "expert.", adaptive))
    for key, module in heads.items():
        table.update(_affine(key, module))
    return table


def checkpoint_tensors(
    model: FlowPolicy, table: Mapping[str, Rows], prefix: str = "model."
) -> dict[str, torch.Tensor]:
    """The weights by checkpoint key: what ``key_table`` reads, written. prefix: LeRobot's."""
    parameters = dict(model.named_parameters())
    tensors = {}
    for key, rows in table.items():
        tensor = parameters[rows.name].detach()
        stop = None if rows.size is None else rows.start + rows.size
        tensors[prefix + key] = tensor[rows.start : stop].contiguous()
    return tensors


def _siglip(config: FlowConfig) -> Iterator[tuple[str, Rows]]:
    tower = _PALIGEMMA + "model.vision_tower.vision_model."
    yield from _affine(tower + "embeddings.patch_embedding", "image.patch")
    yield tower + "embeddings.position_embedding.weight", Rows("image.position")
    for i in range(config.vision.depth):
        old, new = f"{tower}encoder.layers.{i}.", f"image.layers.{i}."
        for j, part in enumerate(("q_proj", "k_proj", "v_proj")):
            start, count = j * config.vision.width, config.vision.width
            yield from _affine(f"{old}self_attn.{part}", new + "qkv", start, count)
        yield from _affine(old + "self_attn.out_proj", new + "output")
        yield from _affine(old + "layer_norm1", new + "norm1")
        yield from _affine(old + "layer_norm2", new + "norm2")
        yield from _affine(old + "mlp.fc1", new + "up")
        yield from _affine(old + "mlp.fc2", new + "down")
    yield from _affine(tower + "post_layernorm", "image.norm")
    yield from _affine(_PALIGEMMA + "model.multi_modal_projector.linear", "projector")


def _gemma(config: GemmaConfig, key: str, name: str, adaptive: bool) -> Iterator[tuple[str, Rows]]:
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    for i in range(config.depth):
        old, new = f"{key}layers.{i}.", f"{name}layers.{i}."
        start = 0
        for part, count in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            rows = Rows(new + "attention.qkv.weight", start, count)
            yield f"{old}self_attn.{part}.weight", rows
            start += count
        yield old + "self_attn.o_proj.weight", Rows(new + "attention.output.weight")
        for j, part in enumerate(("gate_proj", "up_proj")):
            rows = Rows(new + "mlp.gate_up.weight", j * config.mlp_width, config.mlp_width)
            yield f"{old}mlp.{part}.weight", rows
        yield old + "mlp.down_proj.weight", Rows(new + "mlp.down.weight")
        yield from _norm(old + "input_layernorm", new + "norm1", adaptive)
        yield from _norm(old + "post_attention_layernorm", new + "norm2", adaptive)
    yield from _norm(key + "norm", name + "norm", adaptive)


def _norm(key: str, name: str, adaptive: bool) -> Iterator[tuple[str, Rows]]:
    if adaptive:
        yield from _affine(key + ".dense", name + ".dense")
    else:
        yield key + ".weight", Rows(name + ".weight")


def _affine(
    key: str, name: str, start: int = 0, count: int | None = None
) -> Iterator[tuple[str, Rows]]:
    for part in ("weight", "bias"):
        yield f"{key}.{part}", Rows(f"{name}.{part}", start, count)
