# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T's files beside the weights -> one plain description, whichever project wrote them.

Isaac-GR00T: processor_config.json, statistics.json, embodiment_id.json, here. lerobot: the same
facts in the steps of its processor files, in ``lerobot_sidecars.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from phyai_ros.engine import notices
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.fields import flag
from phyai_ros.engine.models.gr00t_n17.images import ImageRules
from phyai_ros.engine.types import EmbodimentError, PolicyError

_log = logging.getLogger(__name__)

BACKBONE = "nvidia/Cosmos-Reason2-2B"
"""The published checkpoint's, and of files that name none."""
PUBLISHED_IDS = {
    "oxe_droid_relative_eef_relative_joint": 24,
    "xdof_relative_eef_relative_joint": 27,
    "xdof_relative_eef_relative_joint_subtask": 27,
    "real_g1_relative_eef_relative_joints": 25,
    "real_r1_pro_sharpa_relative_eef": 26,
    "real_r1_pro_sharpa_relative_eef_human": 26,
    "real_r1_pro_sharpa_relative_eef_maxinsights": 26,
    "real_r1_pro_sharpa_relative_eef_mecka": 26,
    "unitree_g1_full_body_with_waist_height_nav_cmd": 25,
    "simpler_env_google": 0,
    "simpler_env_widowx": 1,
    "libero_sim": 2,
    "new_embodiment": 10,
    "robocasa_panda_omron": 10,
    "robocasa_gr1_tabletop": 10,
    "unitree_g1_sonic": 11,
}
"""Weight rows of the published checkpoint's embodiments, for tags that a sidecar does not name."""


MEASURED = "measured"
"""Of a group's statistics: false where the range that normalises it tells nothing of the data."""


@dataclass(frozen=True)
class Sidecars:
    """embodiment: the chosen tag; embodiments: all that could be. embodiment_id: its weight row.
    modality: the tag's video, state and action layout. statistics: the tag's. kwargs: of the image
    rules, which ``rules`` reads as the project does that wrote them. where: per part, the file and
    key to name in an error. libero: whether decoding ends with what LIBERO's simulator takes for
    the gripper g, the sign of 1 - 2 g. horizon: rows that lerobot cuts a chunk to, None where the
    layout alone says. backbone: whose tokenizer and image processor official code takes."""

    embodiment: str
    embodiments: tuple[str, ...]
    embodiment_id: int
    modality: Mapping[str, Any]
    statistics: Mapping[str, Any]
    kwargs: Mapping[str, Any]
    use_percentiles: bool
    use_relative_action: bool
    clip_outliers: bool
    formalize_language: bool
    where: Mapping[str, str]
    libero: bool = False
    horizon: int | None = None
    backbone: str = BACKBONE
    rules: Callable[[Mapping[str, Any], Mapping[str, Any] | None, str], ImageRules] = (
        ImageRules.lerobot
    )


def read_isaac(checkpoint: Checkpoint, embodiment: str | None) -> Sidecars:
    """Raises PolicyError when a file, the tag, or a part of it is missing, naming what there is."""
    path = str(checkpoint.root / "processor_config.json")
    kwargs = checkpoint.json("processor_config.json").get("processor_kwargs") or {}
    modalities = kwargs.get("modality_configs") or {}
    tag = choose(embodiment, tuple(modalities), path)
    _refuse_other_encodings(kwargs, modalities[tag], path, tag)
    statistics = checkpoint.json("statistics.json")
    if tag not in statistics:
        raise PolicyError(
            f"{checkpoint.root / 'statistics.json'}: no statistics for embodiment {tag!r}; "
            f"there are: {', '.join(statistics)}"
        )
    ids: Mapping[str, Any] = PUBLISHED_IDS
    ids_path = "the published table (no embodiment_id.json)"
    if checkpoint.has("embodiment_id.json"):
        ids = {**PUBLISHED_IDS, **checkpoint.json("embodiment_id.json")}
        ids_path = str(checkpoint.root / "embodiment_id.json")
    if tag not in ids:
        raise PolicyError(f"{ids_path}: no id for embodiment {tag!r}; there are: {', '.join(ids)}")
    if ids is PUBLISHED_IDS:
        notices.once(
            _log,
            f"{checkpoint.root / 'embodiment_id.json'}: no such file, which Isaac-GR00T writes: "
            f"embodiment {tag!r} is taken to have weight row {ids[tag]}, as in the published "
            "table that Isaac-GR00T then takes; copy the file from where it was trained",
        )
    return Sidecars(
        embodiment=tag,
        embodiments=tuple(modalities),
        embodiment_id=int(ids[tag]),
        modality=modalities[tag],
        statistics=statistics[tag],
        kwargs=kwargs,
        use_percentiles=flag(kwargs, "use_percentiles", False, path),
        use_relative_action=flag(kwargs, "use_relative_action", False, path),
        clip_outliers=flag(kwargs, "clip_outliers", True, path),
        formalize_language=flag(kwargs, "formalize_language", True, path),
        where={
            "modality": f"{path}: modality_configs.{tag}",
            "statistics": f"{checkpoint.root / 'statistics.json'}: {tag}",
            "images": path,
            "ids": ids_path,
        },
        libero=tag == "libero_sim",
        backbone=str(kwargs.get("model_name") or BACKBONE),
        rules=ImageRules.isaac,
    )


def _refuse_other_encodings(
    kwargs: Mapping[str, Any], modality: Mapping[str, Any], path: str, tag: str
) -> None:
    """Isaac-GR00T can encode single groups otherwise than by their range, keep the state from the
    model, and have it feel pressures; lerobot cannot."""
    where = f"{path}: modality_configs.{tag}"
    for place, given, key in (
        (f"{where}.state", modality.get("state") or {}, "exclude_state"),
        (f"{path}: processor_kwargs", kwargs, "exclude_state"),
        (f"{path}: processor_kwargs", kwargs, "use_tactile"),
    ):
        if given.get(key):
            raise PolicyError(f"{place}.{key}: expected false, found {given[key]!r}")
    encodings = [("state", "mean_std_embedding_keys"), ("action", "mean_std_embedding_keys")]
    if kwargs.get("apply_sincos_state_encoding"):
        encodings.append(("state", "sin_cos_embedding_keys"))
    for part, key in encodings:
        named = (modality.get(part) or {}).get(key)
        if named:
            raise PolicyError(
                f"{where}.{part}.{key}: {', '.join(map(str, named))}: not supported; expected none "
                "(groups are normalised by min and max, or q01 and q99)"
            )


def choose(wanted: str | None, tags: tuple[str, ...], where: str) -> str:
    """The embodiment tag: the wanted one, or the only one."""
    if wanted is None:
        if len(tags) == 1:
            return tags[0]
        raise EmbodimentError(
            f"{where}: several embodiments, name one with embodiment=: {', '.join(tags) or 'none'}",
            tags,
        )
    if wanted not in tags:
        raise EmbodimentError(
            f"{where}: unknown embodiment {wanted!r}; there are: {', '.join(tags) or 'none'}", tags
        )
    return wanted
