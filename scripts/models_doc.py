# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Writes docs/models.md: the model families, what each is verified against, and measured errors.

    python scripts/models_doc.py [--golden DIR]

Runs the recorded requests of every golden fixture, on the CPU in one thread.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch

from phyai_ros.engine import registry
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.policy import Policy, load_policy
from phyai_ros.engine.types import EmbodimentError
from phyai_ros.tools import check_inputs, check_rows

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "models.md"
LAYOUTS = {
    "act": "LeRobot",
    "diffusion": "LeRobot, batch norm, one encoder a camera",
    "diffusion_gn": "LeRobot, group norm, shared encoder",
    "smolvla": "LeRobot",
    "pi0": "LeRobot",
    "pi05": "LeRobot",
    "pi0_openpi": "openpi's converter",
    "pi05_openpi": "openpi's converter",
    "groot_n17": "Isaac-GR00T, sharded",
}
CONVERTED = """
No fixture is written in these; the first three are fixtures converted, held to the same actions:

| layout | in test/engine/ |
|---|---|
| LeRobot's GR00T (`_groot_model.` keys) | `groot_n17`: test_gr00t_lerobot.py |
| LeRobot before its processor files | `act`, `diffusion`: test_lerobot_layout.py |
| pi0, pi0.5 with older or tied keys, or in shards | `pi0`, `pi05`, openpi's: test_pi_layouts.py |
| other dimensions, names and counts in every layout: random weights | test_other_sizes.py |

More fixtures, of any size and name: `PHYAI_FIXTURES=DIR pytest test/engine/test_fixtures.py`.
"""
OPTIONS = """
## Options

Followed: as official code runs them. Refused: by name, because they would give other actions
without a word. What only training reads is not looked at.

| family | followed | refused |
|---|---|---|
| LeRobot's, all | normalisation by any mode, a feature each, zero ranges, \
`normalize_observation_keys`; relative actions with excluded joints; a tokenizer saved with the \
policy; vectors beside `observation.state`, `observation.environment_state` and `action`, which \
its models do not read | processor steps that are not done here; prompts that are not cut; PEFT \
adapters |
| `pi0`, `pi05` | camera counts, `empty_cameras`, image sizes, steps, periods of the time \
embedding, grouped heads of any number, tied or untied embeddings | images normalised other than \
by IDENTITY; language model and expert of different depth, heads or head size; visual or \
proprioceptive memory |
| openpi's layout | absent cameras in their slots, padded statistics, `use_quantile_norm`, \
`discrete_state_input`, `delta_action_mask`, `max_token_len`, `num_steps` in config.json | \
several assets with none chosen |
| `smolvla` | `add_image_special_tokens` with `empty_cameras`, `attention_mode`, \
`self_attn_every_n_layers`, `num_vlm_layers` (none: all), `num_expert_layers`, \
`expert_width_multiplier`, square `resize_imgs_with_padding`, normalised images, tied \
embeddings; `prefix_length` and `pad_language_to` change nothing | `adapt_to_pi_aloha`, \
`use_delta_joint_actions_aloha`; images that are not square; an expert layer missing where it \
would attend to itself |
| `act` | with or without VAE, `pre_norm`, activation, ResNet 18 to 152, dilation, decoder \
layers, environment state, no camera, cameras of different size, an image crop step | other \
backbones |
| `diffusion` | 1 or more observation steps, crop and resize, shared or separate encoders, batch \
or group norm, FiLM scale, DDIM and DDPM, schedules, clipping, sample prediction, a compiled \
network's weights | cameras of \
different size; schedules and predictions of other names |
| `gr00t_n17`, Isaac's and LeRobot's layout | embodiments, `select_layer`, steps and buckets, \
`use_vlln`, VL self-attention, plain or alternating DiT, percentiles or range, relative joints \
and poses a time step or not, `clip_outliers`, `formalize_language`, crops, letter box, \
`action_decode_transform`, images as the project that wrote the checkpoint scales them | sine \
and cosine or mean and deviation encoding of groups, `reproject_vision`, `exclude_state`, state \
history, positional embeddings in the DiT; more frames than one of a camera repeat the newest, \
as LeRobot does |
"""
REFUSED = """
## Refused
With file, key, what was expected, what was found, and the candidates. test/engine/test_bad_input.py
tries in every layout what any layout can get wrong; the table says where the rest is tested.

| refused | also in test/engine/ |
|---|---|
| wrong directory, hub id or revision that is not there | test_checkpoint.py, test_hub.py |
| no safetensors; a pickle by name, never opened | test_checkpoint.py |
| shard missing, truncated, outside the directory | test_checkpoint.py |
| weights missing, unexpected, of another shape | test_checkpoint.py, test_pi_layouts.py |
| dtype unsupported (8 bits, whole numbers for a weight) | test_checkpoint.py |
| wrong or unknown family | test_checkpoint.py, test_pi_layouts.py |
| statistics absent, under another key, of another length, not finite | test_lerobot_layout.py, \
test_normalize.py |
| unknown embodiment tag, or one where there are none | test_checkpoint.py, test_gr00t_lerobot.py |
| too many or too few cameras | test_gr00t_policy.py, test_pi_preprocess.py, test_smolvla.py |
| prompt too long: cut as the reference does, with one warning | test_pi_preprocess.py, \
test_smolvla.py, test_gr00t_policy.py |
| state, pixels, noise, left-over or actions that are not finite | test_gr00t_policy.py |
| a file beside the weights absent that official code needs; one that it has a default for: \
told by name | test_absent_files.py |
| horizon longer than the position table | test_checkpoint.py |

GR00T's reference has no prompt limit; more than 1024 tokens are refused here.
"""
HEAD = """# Models
Written by `python scripts/models_doc.py`, which measured what it says; do not edit by hand.

`model:=` takes a name of config/models or a YAML file; `checkpoint:=` a directory or a hub id in
the layout of the model's own project. safetensors only: a pickle is refused by name.
`phyai-ros info --checkpoint DIR` says what a checkpoint is, `phyai-ros init-robot` writes a robot
YAML that fits it, `phyai-ros check` repeats the checks below on it.

| family | other names | in config.json |
|---|---|---|
"""
MEASURED = """
## Measured

Recorded requests of the official implementations (small random weights in each ecosystem's own
layout; raw images, state and instruction to robot units), answered on one CPU thread.

* float32: largest error over all recorded requests, relative to the largest action. Must be below
  1e-5; the tests hold every intermediate in the fixtures to the same.
* bfloat16: largest error in normalised actions, over the largest bfloat16 error of the official
  implementation that the fixture records. Must be below 1.25; the tests hold every case to its own.
* paths: float32 at batch 1 and 8 against the reference path, which hoists nothing and answers one
  request at a time. Must be below 1e-5 and 5e-5.

| fixture | layout | verified against | float32 | bfloat16 | batch 1 | batch 8 |
|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = os.environ.get("PHYAI_GOLDEN", ROOT.parent / "shared" / "golden")
    parser.add_argument("--golden", type=Path, default=Path(default))
    golden = parser.parse_args().golden
    torch.set_num_threads(1)
    lines = [HEAD.rstrip("\n")]
    for name in registry.families():
        known = registry.family(name)
        others = ", ".join(f"`{alias}`" for alias in known.aliases)
        lines.append(f"| `{name}` | {others} | {', '.join(sorted(known.config_types))} |")
    lines.append(MEASURED.rstrip("\n"))
    lines += [_row(golden / name, layout) for name, layout in LAYOUTS.items()]
    lines += [text.rstrip("\n") for text in (CONVERTED, OPTIONS, REFUSED)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _row(fixture: Path, layout: str) -> str:
    reference = json.loads((fixture / "cases.json").read_text())["reference"]
    cells = [
        f"`{fixture.name}` ({registry.detect(Checkpoint(fixture))})",
        layout,
        _named(reference),
        f"{_recorded(fixture, 'float32'):.1e}",
        _bfloat16(fixture),
        *(f"{error:.1e}" for error in _paths(fixture)),
    ]
    return f"| {' | '.join(cells)} |"


def _named(reference: dict[str, str]) -> str:
    """Some fixtures give a number as version, some a list of names with numbers."""
    version = reference["version"]
    return f"{reference['name']} {version}" if version[0].isdigit() else version


def _policy(fixture: Path, embodiment: str | None, dtype: str = "float32") -> Policy:
    try:
        return load_policy(fixture, embodiment=embodiment, dtype=dtype)
    except EmbodimentError as error:
        return load_policy(fixture, embodiment=error.choices[0], dtype=dtype)


def _recorded(fixture: Path, dtype: str) -> float:
    """float32: the largest relative error. bfloat16: the largest ratio to the official one's own
    error, negative where none is recorded."""
    cases = check_inputs.recorded(fixture, lambda tag: _policy(fixture, tag).spec)
    rows = check_rows.fixture(cases, lambda tag: _policy(fixture, tag, dtype), dtype)
    ratios = []
    for row in rows:
        if row.error is None or row.limit is None:
            return -1.0
        own = row.limit / check_rows.OWN_ERROR
        ratios.append(row.error if dtype == "float32" else row.error / own)
    return max(ratios)


def _bfloat16(fixture: Path) -> str:
    ratio = _recorded(fixture, "bfloat16")
    return f"{ratio:.2f}" if ratio >= 0 else "not recorded"


def _paths(fixture: Path) -> list[float]:
    rows = check_rows.fixed_inputs(_policy(fixture, None), None, (1, 8))
    return [row.error for row in rows if row.check == "path" and row.error is not None]


if __name__ == "__main__":
    main()
