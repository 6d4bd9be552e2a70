# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A robot YAML and a model YAML that fit a checkpoint, as text with the gaps marked.

Nothing about a robot is guessed: a limit that nobody has filled in is refused by the robot reader,
by name, and does not become a number that an arm could break on.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

import numpy as np
import yaml

from phyai_ros.engine.types import FeatureSpec, PolicySpec
from phyai_ros.robots import travel
from phyai_ros.robots.config_files import GAP
from phyai_ros.robots.numbers import FARTHEST
from phyai_ros.robots.trained import RANGES

_GRIPPER = re.compile(r"grip|finger", re.IGNORECASE)
_VECTOR_NAMES = {"action", "actions", "state", "observation.state"}


@dataclass(frozen=True)
class Skeleton:
    """robot, model: the two files' text. gaps: how many values are to be filled in."""

    robot: str
    model: str

    @property
    def gaps(self) -> int:
        return len(re.findall(rf"\b{GAP}\b(?!:)", _without_comments(self.robot + self.model)))


def skeleton(spec: PolicySpec, name: str, family: str, checkpoint: str) -> Skeleton:
    """name: the robot's. checkpoint: as the model's YAML names it."""
    joints = joint_names(spec)
    return Skeleton(
        _robot(spec, name, joints, checkpoint),
        _model(spec, name, joints, family, checkpoint),
    )


def joint_names(spec: PolicySpec) -> list[str]:
    """One name an action column: the checkpoint's own where it has one, else joint_<i>."""
    names: list[str] = []
    for feature in spec.action:
        whole = feature.name in _VECTOR_NAMES
        base = "joint" if whole else _word(feature.name)
        alone = feature.size == 1 and not whole
        names += [base if alone else f"{base}_{i}" for i in range(feature.size)]
    return [n if names.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(names)]


def camera_roles(spec: PolicySpec) -> dict[str, str]:
    """Camera key -> role, the last part of the key as far as a topic may have it in its name."""
    roles: dict[str, str] = {}
    for key in spec.cameras:
        role = re.sub(r"\W+", "_", _word(key), flags=re.ASCII).strip("_") or "camera"
        roles[key] = role if role not in roles.values() else f"{role}_{len(roles)}"
    return roles


def _word(key: str) -> str:
    last = key.removesuffix(".pos").rsplit(".", 1)[-1].rsplit("/", 1)[-1]
    word = re.sub(r"\W+", "_", last).strip("_")
    return word if word and not word[0].isdigit() else f"_{word}"


def _text(value: str) -> str:
    """As YAML reads it back: in quotes where it would be a number, a flag or another structure."""
    plain = re.fullmatch(r"[\w/.~][\w/.~@+-]*", value) and yaml.safe_load(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _note(value: str) -> str:
    """What a checkpoint says, in one line: a comment must not end where it likes."""
    return "".join(c if c.isprintable() else " " for c in value)


def _robot(spec: PolicySpec, name: str, joints: list[str], checkpoint: str) -> str:
    rate = f"{1 / spec.step:g}" if spec.step else GAP
    lines = [
        f"# A robot for {_note(checkpoint)}. Fill in every {GAP}: nothing is guessed for you.",
        "# Joint names are those of sensor_msgs/JointState; limits come from the arm's data sheet.",
        f"name: {name}",
        "",
        f"control_rate: {rate}  # Hz; a whole multiple of the policy's rate",
        "joint_state_topics: [/joint_states]",
        "",
        "# position: [lower, upper]; velocity and acceleration: a second, a second squared.",
        "# Where the policy speaks other numbers than the joint, add sign, scale, offset:",
        "# policy value = sign * scale * (position - offset).",
        "joints:",
    ]
    seen = _ranges(spec, joints)
    for joint in joints:
        lines += [
            f"  {_text(joint)}:{seen[joint]}",
            "    unit: rad  # or m",
            f"    position: [{GAP}, {GAP}]",
            f"    velocity: {GAP}",
            f"    acceleration: {GAP}",
        ]
        if _GRIPPER.search(joint):
            lines.append(
                "    gripper: {}  # never blended; give state and command mappings if needed"
            )
    lines += ["", "cameras:"]
    for key, role in camera_roles(spec).items():
        size = spec.camera_sizes.get(key)
        lines += [f"  {_text(role)}:", f"    topic: /camera/{role}/image_raw"]
        if size:
            lines.append(
                f"    size: [{size[0]}, {size[1]}]  # height, width: the policy takes no other"
            )
        if key in spec.optional_cameras:
            lines.append(
                "    optional: false  # the policy can do without; true lets a frame lack it"
            )
    lines += [
        "",
        "output:",
        "  type: forward_command  # or joint_trajectory, joint_group",
        "  topic: /forward_position_controller/commands",
        "",
        "actions: absolute",
        "",
    ]
    return "\n".join(lines)


def _model(spec: PolicySpec, name: str, joints: list[str], family: str, checkpoint: str) -> str:
    state = _state_joints(spec, joints)
    lines = [
        f"# {family} on {name}: which camera and which joint stands behind each key and column.",
        f"family: {family}",
        f"checkpoint: {_text(checkpoint)}",
        "",
        "robots:",
        f"  {name}:",
        *([f"    embodiment: {_text(spec.embodiment)}"] if spec.embodiment else []),
        "    cameras:  # checkpoint's key: the robot's camera role",
        *(f"      {_text(key)}: {_text(role)}" for key, role in camera_roles(spec).items()),
        "    state:  # column of the state vector: a joint, or a number that stands there always",
        *(
            f"      - {_text(j)}  # {_note(c)}"
            for j, c in zip(state, spec.state_names, strict=True)
        ),
        *([] if state else ["      []"]),
        "    action:  # column of an action row: a joint, or null for a column that moves nothing",
        *(
            f"      - {_text(j)}  # {_note(c)}"
            for j, c in zip(joints, spec.action_names, strict=True)
        ),
        f"    step: {spec.step or GAP}  # s between rows: 1 / the rate of the training data",
        f"    horizon: {spec.horizon}",
        "",
    ]
    return "\n".join(lines)


def _state_joints(spec: PolicySpec, joints: list[str]) -> list[str]:
    """Per state column the joint of the action column of the same name; a gap where none is. A
    whole state vector as long as the action is taken column by column."""
    by_column = dict(zip(spec.action_names, joints, strict=True))
    found: list[str] = []
    for feature in spec.state:
        if feature.name in _VECTOR_NAMES and feature.size == len(joints):
            found += joints
        else:
            start = len(found)
            found += [by_column.get(c, GAP) for c in spec.state_names[start : start + feature.size]]
    return found


def _ranges(spec: PolicySpec, joints: list[str]) -> dict[str, str]:
    """Per joint a comment with what the training data shows, in the policy's numbers."""
    found = dict.fromkeys(joints, "")
    of_state = dict(zip(_state_joints(spec, joints), _columns(spec.state), strict=True))
    of_action = dict(zip(joints, _columns(spec.action), strict=True))
    for joint in joints:
        feature, column = of_state.get(joint) or of_action[joint]
        low, high = _range(feature, column)
        if math.isfinite(low):
            what = "offsets" if feature.relative else "values"
            found[joint] = f"  # {what} in the training data: {low:.4g} to {high:.4g}"
            if max(abs(low), abs(high)) > FARTHEST["rad"] and not _GRIPPER.search(joint):
                found[joint] += f"; of a joint that turns: {travel.angles((low, high))}"
    return found


def _columns(features: tuple[FeatureSpec, ...]) -> list[tuple[FeatureSpec, int]]:
    return [(f, i) for f in features for i in range(f.size)]


def _range(feature: FeatureSpec, column: int) -> tuple[float, float]:
    for low, high in RANGES:
        if low in feature.statistics and high in feature.statistics:
            rows = [np.atleast_2d(feature.statistics[k])[..., column] for k in (low, high)]
            return float(rows[0].min()), float(rows[1].max())
    return math.nan, math.nan


def _without_comments(text: str) -> str:
    return re.sub(r"#.*", "", text)
