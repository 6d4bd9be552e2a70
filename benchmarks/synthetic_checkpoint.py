# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Writes a sharded checkpoint of the published sizes with random weights.

    python benchmarks/synthetic_checkpoint.py pi05 DIR [--layers N] [--vocabulary N] [--shard-mb N]

The files beside the weights are those of the embedded policies (for SmolVLA, written here), with
the published sizes. Needs one shard of host memory; the values are drawn on a CUDA GPU where there
is one (seconds instead of a minute), and are then others.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import record
import synthetic
import torch
from safetensors.torch import save_file
from torch import nn

from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.model import GrootModel
from phyai_ros.engine.models.paligemma.config import describe
from phyai_ros.engine.models.pi05.adapter import FAMILY
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig
from phyai_ros.engine.models.smolvla.model import SmolVlaModel
from phyai_ros.engine.weights import Rows

EMBEDDED = record.ROOT / "phyai_ros" / "checkpoints"
MEBI = 1 << 20


def write(
    folder: Path, model: nn.Module, table: Mapping[str, Rows], shard: int, dtype: torch.dtype
) -> int:
    """The weights of ``model`` (built on meta) as shards of at most ``shard`` bytes, or one tensor
    where that is more. table: checkpoint key -> the rows of the parameter. Returns the bytes."""
    parameters = dict(model.named_parameters())
    shapes = {key: _shape(parameters[rows.name], rows) for key, rows in table.items()}
    shards: list[list[str]] = [[]]
    room = shard
    for key, shape in shapes.items():
        size = math.prod(shape) * dtype.itemsize
        if size > room and shards[-1]:
            shards.append([])
            room = shard
        shards[-1].append(key)
        room -= size
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)
    weight_map = {}
    for number, keys in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        values = {}
        for key in keys:
            value = torch.empty(shapes[key], dtype=dtype, device=device)
            synthetic.draw(model, table[key].name, value, generator)
            values[key] = value.cpu()
        save_file(values, folder / name)
        weight_map.update(dict.fromkeys(keys, name))
    total = sum(math.prod(s) for s in shapes.values()) * dtype.itemsize
    _dump(
        folder / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": weight_map},
    )
    return total


def pi05(folder: Path, layers: int | None, vocabulary: int | None) -> tuple[nn.Module, dict]:
    config = synthetic.published()
    if layers is not None:
        parts = {
            part: replace(getattr(config, part), depth=layers)
            for part in ("vision", "language", "expert")
        }
        config = replace(config, **parts)
    if vocabulary is not None:
        config = replace(config, language=replace(config.language, vocabulary=vocabulary))
    synthetic.sidecars(EMBEDDED / "pi05_ur10e_small", folder)
    _dump(folder / "architecture.json", describe(config))
    table = FAMILY.table(config)
    return _meta(FAMILY.model, config), {f"model.{key}": rows for key, rows in table.items()}


def gr00t(folder: Path, layers: int | None, vocabulary: int | None) -> tuple[nn.Module, dict]:
    if layers is not None or vocabulary is not None:
        raise SystemExit("gr00t has the published sizes only")
    for file in (EMBEDDED / "gr00t_ur10e_small").iterdir():
        if file.name not in ("architecture.json", "config.json", "model.safetensors"):
            shutil.copy(file, folder)
    _published_ids(folder / "tokenizer.json")
    _dump(folder / "config.json", {"model_type": "Gr00tN1d7"})
    model = _meta(GrootModel, GrootConfig.parse({}, "published"))
    return model, {name: Rows(name) for name, _ in model.named_parameters()}


def _published_ids(file: Path) -> None:
    """The special tokens where the published tokenizer has them: 151643 and on."""
    content = json.loads(file.read_text(encoding="utf-8"))
    first = 151643
    published = {
        "<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2, "<|vision_start|>": 9,
        "<|vision_end|>": 10, "<|image_pad|>": 12, "<|video_pad|>": 13,
    }  # fmt: skip
    for token in content["added_tokens"]:
        token["id"] = first + published[token["content"]]
        content["model"]["vocab"][token["content"]] = token["id"]
    _dump(file, content)


def smolvla(folder: Path, layers: int | None, vocabulary: int | None) -> tuple[nn.Module, dict]:
    if layers is not None or vocabulary is not None:
        raise SystemExit("smolvla has the published sizes only")
    cameras = {
        f"observation.images.camera{i}": {"type": "VISUAL", "shape": [3, 480, 640]} for i in (1, 2)
    }
    vector = {"shape": [6]}
    content = {
        "type": "smolvla",
        "input_features": {**cameras, "observation.state": {"type": "STATE", **vector}},
        "output_features": {"action": {"type": "ACTION", **vector}},
    }
    _dump(folder / "config.json", content)
    steps = [
        {"registry_name": "tokenizer_processor", "config": {"max_length": 48}},
        {"registry_name": "normalizer_processor", "config": {"norm_map": {}}},
    ]
    _dump(folder / "policy_preprocessor.json", {"steps": steps})
    steps = [{"registry_name": "unnormalizer_processor", "config": {"norm_map": {}}}]
    _dump(folder / "policy_postprocessor.json", {"steps": steps})
    shutil.copy(EMBEDDED / "gr00t_ur10e_small" / "tokenizer.json", folder)
    model = _meta(SmolVlaModel, SmolVlaConfig.parse(content, None, "published"))
    return model, {_smolvla_key(name): Rows(name) for name, _ in model.named_parameters()}


def _smolvla_key(name: str) -> str:
    if name.startswith(("text_model.", "vision_model.", "connector.")):
        return f"model.vlm_with_expert.vlm.model.{name}"
    return f"model.vlm_with_expert.{name}" if name.startswith("lm_expert.") else f"model.{name}"


FAMILIES: Mapping[str, Callable[[Path, int | None, int | None], tuple[nn.Module, dict]]] = {
    "pi05": pi05,
    "gr00t": gr00t,
    "smolvla": smolvla,
}


def make(
    family: str,
    folder: Path,
    *,
    layers: int | None = None,
    vocabulary: int | None = None,
    shard: int = 1024 * MEBI,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """A checkpoint in ``folder``; layers, vocabulary: fewer than published. Returns its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    model, table = FAMILIES[family](folder, layers, vocabulary)
    return write(folder, model, table, shard, dtype)


def _meta(model: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    with torch.device("meta"):
        return model(config)


def _shape(parameter: torch.Tensor, rows: Rows) -> tuple[int, ...]:
    size = len(parameter) if rows.size is None and parameter.ndim else rows.size
    return (size, *parameter.shape[1:]) if size is not None else ()


def _dump(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, help="of each part of pi05; published: 18, 18, 27")
    parser.add_argument("--vocabulary", type=int, help="of pi05; published: 257152")
    parser.add_argument("--shard-mb", type=int, default=1024, help="largest shard, MiB")
    options = parser.parse_args()
    total = make(
        options.family,
        options.folder,
        layers=options.layers,
        vocabulary=options.vocabulary,
        shard=options.shard_mb * MEBI,
    )
    print(f"{options.folder}: {options.family}, {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
