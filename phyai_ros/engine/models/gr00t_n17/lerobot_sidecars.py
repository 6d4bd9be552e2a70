# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T as lerobot saves it: the facts of Isaac's sidecars, in the steps of its processor files.

Two kinds. Fine-tuned from a checkpoint that knew the embodiment (or with relative actions): the
steps carry Isaac's groups and statistics. Fine-tuned with a data set's statistics: one state and
one action vector with min and max, in the steps' safetensors.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from phyai_ros.engine import notices
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.fields import flag
from phyai_ros.engine.models.gr00t_n17.codec import size_of
from phyai_ros.engine.models.gr00t_n17.sidecars import (
    BACKBONE,
    MEASURED,
    PUBLISHED_IDS,
    Sidecars,
    choose,
)
from phyai_ros.engine.models.lerobot import ACTION, STATE, Layout, Step, read_layout
from phyai_ros.engine.types import PolicyError

_log = logging.getLogger(__name__)
_PACK = "groot_n1_7_pack_inputs_v1"
_ENCODE = "groot_n1_7_vlm_encode_v1"
_DECODE = "groot_n1_7_action_decode_v1"
_DECODE_FLAT = "groot_action_unpack_unnormalize_v2"
_STEPS = (_PACK, _ENCODE, _DECODE, _DECODE_FLAT)
_IMAGES = "observation.images."


def read(checkpoint: Checkpoint, embodiment: str | None) -> Sidecars:
    """Raises PolicyError when a step, the tag, or a part of it is missing."""
    layout = read_layout(checkpoint.root, checkpoint.config, _STEPS)
    pack = layout.preprocessor.require(_PACK)
    encode = layout.preprocessor.require(_ENCODE)
    where = f"{layout.preprocessor.file}: {_PACK}"
    tag = choose(embodiment, (str(pack.config.get("embodiment_tag", "new_embodiment")),), where)
    ids = pack.config.get("embodiment_mapping") or PUBLISHED_IDS
    if tag not in ids:
        notices.once(
            _log,
            f"{where}: embodiment_mapping has no {tag!r}; weight row 0, as lerobot trains it; "
            f"there are: {', '.join(ids)}",
        )
    grouped = layout.postprocessor.find(_DECODE)
    libero = _libero(checkpoint, tag)
    if grouped is not None:
        modality, statistics, decode = _grouped(layout, pack, grouped, where)
    else:
        flat = layout.postprocessor.require(_DECODE_FLAT)
        modality, statistics, decode = _flat(layout, pack, flat, where)
        libero = libero and layout.action.shape[0] >= 7
    _refuse_raw_numbers(layout, pack, grouped)
    decoded = f"{layout.postprocessor.file}: {_DECODE}"
    config = checkpoint.config
    lengths = [int(config.get(key) or 0) for key in ("chunk_size", "n_action_steps")]
    return Sidecars(
        embodiment=tag,
        embodiments=(tag,),
        embodiment_id=int(ids.get(tag, 0)),
        modality=modality,
        statistics=statistics,
        kwargs=encode.config,
        use_percentiles=grouped is not None and flag(decode, "use_percentiles", False, decoded),
        use_relative_action=grouped is not None
        and flag(decode, "use_relative_action", False, decoded),
        clip_outliers=flag(pack.config, "clip_outliers", True, where),
        formalize_language=flag(pack.config, "formalize_language", True, where),
        where={
            "modality": where,
            "statistics": f"{where}: raw_stats" if grouped is not None else pack.file,
            "images": f"{layout.preprocessor.file}: {_ENCODE}",
            "ids": where,
        },
        libero=libero,
        horizon=min((n for n in lengths if n > 0), default=None),
        backbone=str(encode.config.get("model_name") or BACKBONE),
    )


def _libero(checkpoint: Checkpoint, tag: str) -> bool:
    """Whether actions end with LIBERO's gripper: as config.json says, which with lerobot goes
    before what the saved step has, else as the embodiment is that simulator's."""
    named = checkpoint.config.get("action_decode_transform", "auto")
    word = str(named or "none").lower()
    if word not in ("auto", "none", "libero"):
        raise PolicyError(
            f"{checkpoint.root / 'config.json'}: action_decode_transform is {named!r}; known: "
            "auto, none, libero"
        )
    own = checkpoint.config.get("embodiment_tag", tag)
    return word == "libero" or (word == "auto" and own == "libero_sim")


def _refuse_raw_numbers(layout: Layout, pack: Step, grouped: Step | None) -> None:
    """lerobot's steps can leave vectors as they are, or unclipped; it never saves them so."""
    flat = None if grouped is not None else layout.postprocessor.require(_DECODE_FLAT)
    for step, key in (
        (pack, "normalize_min_max"), (flat, "normalize_min_max"), (flat, "clip_normalized_action")
    ):  # fmt: skip
        if step is not None and not step.config.get(key, True):
            raise PolicyError(
                f"{step.described}: {step.name}.{key}: expected true, found {step.config[key]!r}"
            )


_Parts = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]


def _grouped(layout: Layout, pack: Step, decode: Step, where: str) -> _Parts:
    parts = {
        key: pack.config.get(key) or decode.config.get(key)
        for key in ("modality_config", "raw_stats")
    }
    for key, value in parts.items():
        if not value:
            raise PolicyError(f"{where}: {key} missing; there are: {', '.join(pack.config)}")
    modality = dict(parts["modality_config"] or {})
    statistics = dict(parts["raw_stats"] or {})
    _add_rest_of_state(layout, modality, statistics, where)
    keys = pack.config.get("video_modality_keys")
    video = modality.get("video")
    if keys:
        modality["video"] = {"modality_keys": keys, "delta_indices": _frames(pack)}
    elif not video:
        modality["video"] = _cameras(layout, pack)
    return modality, statistics, decode.config


def _add_rest_of_state(
    layout: Layout, modality: dict[str, Any], statistics: dict[str, Any], where: str
) -> None:
    """A data set's state may be wider than the groups (which then cover the columns that an action
    has). lerobot feeds the rest to the model, too, normalised as if it lay between 0 and 1."""
    groups, keys = statistics.get("state"), (modality.get("state") or {}).get("modality_keys")
    feature = next((f for f in layout.inputs if f.key == STATE), None)
    if feature is None or not isinstance(groups, Mapping) or not isinstance(keys, list):
        return
    if STATE in keys or not all(isinstance(groups.get(key), Mapping) for key in keys):
        return
    sizes = [size_of(groups[key], f"{where}: raw_stats.state.{key}") for key in keys]
    rest = feature.shape[0] - sum(sizes)
    # A policy that was saved without a data set has the model's own width there.
    if rest < 1 or feature.shape[0] == layout.config.get("max_state_dim", 132):
        return
    low, high = [0.0] * rest, [1.0] * rest
    entry = {"min": low, "max": high, "q01": low, "q99": high, MEASURED: False}
    modality["state"] = {**modality["state"], "modality_keys": [*keys, STATE]}
    statistics["state"] = {**groups, STATE: entry}


def _flat(layout: Layout, pack: Step, decode: Step, where: str) -> _Parts:
    relative = layout.preprocessor.find("relative_actions_processor")
    if relative is not None and relative.config.get("enabled"):
        raise PolicyError(
            f"{layout.preprocessor.file}: relative_actions_processor with {_PACK} is not supported"
        )
    statistics: dict[str, dict[str, Any]] = {}
    for kind, key, step in (("state", STATE, pack), ("action", ACTION, decode)):
        entry = step.statistics.get(key)
        if entry is None:
            raise PolicyError(
                f"{step.file}: no statistics for {key!r}; "
                f"there are: {', '.join(step.statistics) or 'none'}"
            )
        statistics[kind] = {key: {name: value.tolist() for name, value in entry.items()}}
    modality = {
        "state": {"modality_keys": [STATE]},
        "action": {
            "modality_keys": [ACTION],
            "delta_indices": list(range(int(pack.config.get("valid_action_horizon", 0)))),
        },
        "video": _cameras(layout, pack),
    }
    return modality, statistics, decode.config


def _frames(pack: Step) -> list[int]:
    return list(range(int(pack.config.get("video_horizon") or 1)))


def _cameras(layout: Layout, pack: Step) -> dict[str, Any]:
    """The cameras that the checkpoint names, else all in alphabetical order, as lerobot has it."""
    keys = pack.config.get("video_modality_keys") or sorted(
        camera.removeprefix(_IMAGES) for camera in layout.cameras
    )
    return {"modality_keys": list(keys), "delta_indices": _frames(pack)}
