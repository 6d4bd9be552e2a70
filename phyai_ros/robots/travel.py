# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where a joint can be, against where training saw it: what tells, before anything moves, that
checkpoint and description speak of a joint in different numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phyai_ros.engine.types import FeatureSpec
from phyai_ros.robots.mapping import Mapping as ValueMapping
from phyai_ros.robots.numbers import FARTHEST
from phyai_ros.robots.parts import Joint
from phyai_ros.robots.robot import Robot
from phyai_ros.robots.trained import FAR, ranges, usual

_HUNDRED = 105.0
"""What a number out of a hundred is at most, a little beyond the calibrated range."""
_STOP = 0.05
"""Share of its travel, though of no more than 1 rad or m, by which a joint may have been beyond its
limits: a zero or a hard stop that two measured a little differently."""
_SHIFTED = "correct its offset, scale or sign, or the column it is bound to"


@dataclass(frozen=True)
class Seen:
    """A joint's column, each (low, high). In the checkpoint's unit: can, where its limits let it
    be; saw, where training saw it; mostly, that without a few frames that may be no postures.
    would: ``mostly`` in the robot's unit, by its description."""

    name: str
    joint: Joint
    can: tuple[float, float]
    saw: tuple[float, float]
    mostly: tuple[float, float]
    would: tuple[float, float]


def compare(
    robot: Robot,
    columns: Sequence[object],
    maps: Mapping[str, ValueMapping],
    features: Sequence[FeatureSpec],
) -> list[Seen]:
    """The joints among a checkpoint's columns of which its statistics tell. columns: each one's
    joint or gap. maps: joint -> its mapping. features: the checkpoint's, with what training saw of
    these columns."""
    found = []
    all_of_it, most_of_it = (np.stack(ends, axis=1) for ends in (ranges(features), usual(features)))
    for name, saw, mostly in zip(columns, all_of_it, most_of_it, strict=True):
        if not isinstance(name, str) or not np.isfinite((saw, mostly)).all():
            continue
        joint = robot.joints[name]
        can = _ordered(maps[name].to_model(np.array(joint.position)))
        would = _ordered(maps[name].to_robot(mostly))
        found.append(Seen(name, joint, can, _ordered(saw), _ordered(mostly), would))
    return found


def problems(joints: Sequence[Seen], key: str, source: str) -> list[str]:
    """Columns that cannot be meant. key: ``state`` or ``action``, whose ``joints`` are. source: of
    the robot's description."""
    lines = []
    nowhere: dict[str, list[str]] = {}
    for seen in joints:
        unit, (first, last) = seen.joint.unit, seen.would
        if max(abs(first), abs(last)) > FARTHEST[unit]:
            found = f"{seen.name!r} at {between(seen.would)} {unit}"
            nowhere.setdefault(_way_out(seen), []).append(found)
        elif not _meet(seen, seen.saw):
            lines.append(
                f"{key}: {seen.name!r}: {source}: joints.{seen.name}.position: expected limits "
                f"that reach where training saw it, {between(seen.saw)} to the checkpoint, found "
                f"{between(seen.joint.position)} {unit}, which are {between(seen.can)} to it: the "
                f"policy never was inside them and would drive the joint against one at once. "
                f"Widen them, or {_SHIFTED}"
            )
    lines += [
        f"{key}: by {source} training saw {', '.join(found)}, and no joint is there: {way}"
        for way, found in nowhere.items()
    ]
    return lines


def doubts(joints: Sequence[Seen], key: str) -> dict[str, str]:
    """Joint -> why its column is likely not meant so, but may be. Arguments as ``problems``."""
    found = {}
    for seen in joints:
        unit, travel = seen.joint.unit, seen.joint.position
        if seen.would[1] - seen.would[0] > FAR * (travel[1] - travel[0]):
            found[seen.name] = (
                f"{key}: {seen.name}: training saw {between(seen.mostly)}, which would be "
                f"{between(seen.would)} {unit}, and its limits are {between(travel)}: "
                f"{_way_out(seen)}"
            )
        elif not _meet(seen, seen.mostly):
            found[seen.name] = (
                f"{key}: {seen.name}: its limits {between(travel)} {unit} are {between(seen.can)} "
                f"to the checkpoint, and training saw it at {between(seen.mostly)} but for a few "
                f"frames: the policy hardly was inside them. Widen them, or {_SHIFTED}"
            )
    return found


def _meet(seen: Seen, trained: tuple[float, float]) -> bool:
    """Whether the joint can be where training saw it, in the checkpoint's unit. Limits may be
    narrowed on purpose, so a part is enough; and a hard stop is not measured to the last digit."""
    travel = seen.joint.position[1] - seen.joint.position[0]
    in_one = (seen.can[1] - seen.can[0]) / travel
    margin = _STOP * min(travel, 1.0) * in_one
    return seen.can[1] >= trained[0] - margin and seen.can[0] <= trained[1] + margin


def _way_out(seen: Seen) -> str:
    travel = seen.joint.position[1] - seen.joint.position[0]
    if seen.would[1] - seen.would[0] <= 2.0 * travel:  # moved as far as it can, but elsewhere
        return _SHIFTED
    if seen.joint.gripper is not None:
        return (
            "if the checkpoint speaks of shares or percents of its opening, gripper: lacks state "
            "and command mappings that say so (docs/robots.md)"
        )
    if seen.joint.unit == "rad":
        return angles(seen.mostly)
    return "if the checkpoint speaks millimetres, scale: 1000 is missing"


def angles(saw: tuple[float, float]) -> str:
    """What numbers of a joint that turns can be which are no radians."""
    degrees = "if the checkpoint speaks degrees, scale: 57.29578 is missing"
    if max(abs(saw[0]), abs(saw[1])) > _HUNDRED:
        return degrees
    return (
        f"{degrees}; if it speaks LeRobot's -100 to 100 of each joint's calibrated range (its arms "
        "with use_degrees false), scale and offset of that range (docs/robots.md)"
    )


def _ordered(ends: np.ndarray) -> tuple[float, float]:
    return float(ends.min()), float(ends.max())


def between(ends: tuple[float, float]) -> str:
    """A range, for messages."""
    return f"{ends[0]:g} to {ends[1]:g}"
