# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0 and pi0.5 as openpi's PyTorch converter writes them.

``config.json`` holds only sizes. What else openpi keeps in the Python config of a training run may
be added to it by hand: ``max_token_len``, ``discrete_state_input``, ``use_quantile_norm``,
``num_steps`` and ``delta_action_mask`` (columns trained relative to the state); the defaults are
those of openpi's model config. Statistics are in ``assets/<asset id>/norm_stats.json``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from phyai_ros.engine import normalize, notices, tokenize
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.fields import flag, whole
from phyai_ros.engine.models.paligemma.adapter import Transforms
from phyai_ros.engine.models.paligemma.config import (
    FlowConfig,
    SiglipConfig,
    gemma_variant,
    override,
)
from phyai_ros.engine.models.paligemma.family import FlowFamily
from phyai_ros.engine.models.paligemma.prompt import openpi_pi0, pi05
from phyai_ros.engine.types import EmbodimentError, FeatureSpec, PolicyError, PolicySpec

_log = logging.getLogger(__name__)

CAMERAS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
"""openpi's image slots, in the model's order."""
_NEEDED = {True: ("q01", "q99"), False: ("mean", "std")}
"""Whether normalised by quantiles -> the statistics it takes."""
TOKENIZER = "google/paligemma-3b-pt-224"
"""Where the tokenizer comes from when it is not beside the weights."""


def read(
    family: FlowFamily, checkpoint: Checkpoint, asset: str | None
) -> tuple[FlowConfig, PolicySpec, Transforms]:
    """Everything but the weights. asset: which statistics, where there are several."""
    given, file = checkpoint.config, str(checkpoint.root / "config.json")
    config = _flow_config(checkpoint, file)
    asset, assets = _asset(checkpoint, asset)
    quantiles = flag(given, "use_quantile_norm", family.quantiles, file)
    where = f"assets/{asset}/norm_stats.json"
    held = checkpoint.root / where
    statistics = _statistics(checkpoint, where, quantiles)
    mode = "quantiles" if quantiles else "mean_std"
    dims = {key: _used(stats) for key, stats in statistics.items()}
    wide = {"state": dims["state"], "actions": len(statistics["actions"][_NEEDED[quantiles][0]])}
    for key, width in wide.items():
        if width > config.action_width:
            raise PolicyError(
                f"{held}: norm_stats.{key} has {width} columns, the model takes "
                f"{config.action_width} (action_dim of {file})"
            )
    relative = _relative(given.get("delta_action_mask"), dims, file)
    discrete = flag(given, "discrete_state_input", family.discrete_state, file)
    transforms = Transforms(
        slots=CAMERAS,
        absent_last=False,
        pillow=True,
        state=normalize.openpi(statistics["state"], f"{held}: state", quantiles=quantiles),
        action=normalize.openpi(statistics["actions"], f"{held}: actions", quantiles=quantiles),
        action_width=config.action_width,
        relative=relative,
        prompt=pi05 if discrete else openpi_pi0,
        tokenizer=tokenize.load(checkpoint, TOKENIZER),
        max_tokens=whole(given.get("max_token_len") or family.max_tokens, f"{file}: max_token_len"),
        dtype=np.float64,
    )
    spec = PolicySpec(
        family=family.name,
        checkpoint=str(checkpoint.root),
        cameras=CAMERAS,
        optional_cameras=CAMERAS,
        state=(_feature("state", mode, False, statistics["state"], 0, dims["state"]),),
        action=_actions(mode, relative, statistics["actions"]),
        horizon=config.horizon,
        denoising_steps=config.denoising_steps,
        model_action_dim=config.action_width,
        embodiment=asset,
        embodiments=assets,
        max_prompt_tokens=transforms.max_tokens,
        image_size=(config.vision.image_size, config.vision.image_size),
        # pi0.5 has no state token: without the prompt it does not see the state at all.
        ignores=("state",) if family.adaptive and not discrete else (),
    )
    return config, spec, transforms


def _relative(mask: Any, dims: Mapping[str, int], file: str) -> np.ndarray:
    """bool [action columns]; a mask may be shorter. None: no column is relative."""
    relative = np.zeros(dims["actions"], bool)
    if mask is None:
        notices.once(
            _log,
            f"{file}: no delta_action_mask, which openpi keeps in the Python config of a training "
            "run: all actions are taken to be absolute. Where columns were trained relative to the "
            "state (DeltaActions), put their mask there; [] says that none was",
        )
        return relative
    if not isinstance(mask, list) or not all(isinstance(value, bool) for value in mask):
        raise PolicyError(
            f"{file}: delta_action_mask: expected a list of true and false, found {mask!r}"
        )
    if len(mask) > min(dims["actions"], dims["state"]):
        raise PolicyError(
            f"{file}: delta_action_mask has {len(mask)} columns; the action has "
            f"{dims['actions']} and the state {dims['state']}"
        )
    relative[: len(mask)] = mask
    return relative


def _flow_config(checkpoint: Checkpoint, file: str) -> FlowConfig:
    given = checkpoint.config
    for key in ("action_dim", "action_horizon"):
        if not isinstance(given.get(key), int):
            raise PolicyError(
                f"{file}: {key} must be a whole number, found {given.get(key)!r}; "
                f"the file has {', '.join(sorted(given))}"
            )
    config = FlowConfig(
        vision=SiglipConfig(),
        language=gemma_variant(given, "paligemma_variant", "gemma_2b", file),
        expert=gemma_variant(given, "action_expert_variant", "gemma_300m", file),
        horizon=given["action_horizon"],
        action_width=given["action_dim"],
        state_width=given["action_dim"],
        denoising_steps=int(given.get("num_steps", 10)),
    )
    if checkpoint.has("architecture.json"):
        where = str(checkpoint.root / "architecture.json")
        config = override(config, checkpoint.json("architecture.json"), where)
        file = f"{file} and architecture.json"
    config.check(file)
    return config


def _asset(checkpoint: Checkpoint, wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """The asset id to use, and all there are."""
    folder = checkpoint.root / "assets"
    found = tuple(
        sorted(
            p.parent.relative_to(folder).as_posix()
            for p in folder.rglob("*")  # which names links that lead to nothing, too
            if p.name == "norm_stats.json"
        )
    )
    if not found:
        raise PolicyError(f"{folder}: no <asset id>/norm_stats.json; the statistics are missing")
    if wanted is None and len(found) == 1:
        return found[0], found
    if wanted is None:
        raise EmbodimentError(
            f"{folder}: several asset ids, name one with embodiment=: {', '.join(found)}", found
        )
    if wanted not in found:
        raise EmbodimentError(
            f"{folder}: embodiment (asset id) {wanted!r} asked for; there are {', '.join(found)}",
            found,
        )
    return wanted, found


def _statistics(
    checkpoint: Checkpoint, name: str, quantiles: bool
) -> dict[str, dict[str, np.ndarray]]:
    """state and actions -> statistic -> float64 [columns]."""
    file = checkpoint.root / name
    content = checkpoint.json(name).get("norm_stats")
    if not isinstance(content, Mapping):
        raise PolicyError(f"{file}: no 'norm_stats' object")
    needed = _NEEDED[quantiles]
    result = {}
    for key in ("state", "actions"):
        stats = content.get(key)
        if not isinstance(stats, Mapping):
            raise PolicyError(f"{file}: norm_stats.{key} is absent; there are {sorted(content)}")
        arrays: dict[str, np.ndarray] = {
            k: _numbers(v, f"{file}: norm_stats.{key}.{k}")
            for k, v in stats.items()
            if v is not None
        }
        for statistic in needed:
            if statistic not in arrays:
                raise PolicyError(
                    f"{file}: norm_stats.{key}.{statistic} is absent; there are {sorted(arrays)}"
                )
        lengths = {k: v.shape for k, v in arrays.items()}
        if len(set(lengths.values())) != 1 or arrays[needed[0]].ndim != 1:
            raise PolicyError(
                f"{file}: norm_stats.{key}: statistics differ in length: "
                f"{ {k: list(s) for k, s in lengths.items()} }"
            )
        result[key] = arrays
    return result


def _numbers(values: object, where: str) -> np.ndarray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise PolicyError(f"{where}: expected numbers, found {str(values)[:80]}") from None


def _used(statistics: Mapping[str, np.ndarray]) -> int:
    """Columns of the robot's own vector: statistics that were computed on a padded one end in
    columns that are all zero."""
    used = np.any([values != 0 for values in statistics.values()], axis=0)
    return int(np.flatnonzero(used).max(initial=-1)) + 1


def _feature(
    name: str, mode: str, relative: bool, statistics: Mapping[str, Any], start: int, stop: int
) -> FeatureSpec:
    cut = {k: v[start:stop] for k, v in statistics.items()}
    return FeatureSpec(name, stop - start, mode, relative, cut)


def _actions(
    mode: str, relative: np.ndarray, statistics: Mapping[str, np.ndarray]
) -> tuple[FeatureSpec, ...]:
    """One feature, or one a column where only some are relative."""
    size = len(relative)
    if relative.all() or not relative.any():
        return (_feature("actions", mode, bool(relative.all()), statistics, 0, size),)
    return tuple(
        _feature(f"actions.{i}", mode, bool(relative[i]), statistics, i, i + 1) for i in range(size)
    )
