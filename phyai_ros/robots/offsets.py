# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Positions or offsets from the observed one: whether description and checkpoint mean the same of
an action's columns. The observed position added twice, or to a position, sends an arm to its
limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phyai_ros.engine.types import PolicySpec
from phyai_ros.robots.mapping import Mapping as ValueMapping
from phyai_ros.robots.robot import Robot
from phyai_ros.robots.trained import LEAST, usual
from phyai_ros.robots.travel import Seen, between

_ALIKE = 0.5
"""Share of what both ranges cover that they have in common, where both are of positions."""
_ELSEWHERE = 0.25
"""Share of where the joint was that its commands reach, where they are no positions."""


@dataclass(frozen=True)
class Said:
    """Who says that columns are offsets. relative: joints. model: where the model's YAML has its
    part about this robot, ``file: robots.name``. by_model: it is said there, not by the robot."""

    robot: Robot
    relative: frozenset[str]
    model: str
    by_model: bool

    def problem(self, expected: str, wrong: Sequence[str]) -> str:
        """expected: and why. wrong: joints whose columns are no offsets to be added."""
        named = [name for name in self.robot.joints if name in self.relative]
        left = ", ".join(name for name in named if name not in wrong)
        rest = f", or relative: [{left}] if these are offsets" if left else ""
        if self.by_model:
            way = f"write relative: []{rest}"
            return f"{self.model}: relative: expected {expected}, found {named}: {way}"
        return (
            f"{self.robot.source}: actions: expected {expected}, found relative: write actions: "
            f"absolute, or of this checkpoint alone in {self.model}: relative: []{rest}"
        )


def made_absolute(spec: PolicySpec, columns: Sequence[str | None]) -> dict[str, str]:
    """Joint -> name of its action column, of those that the checkpoint makes absolute itself.
    columns: the joint of each."""
    own = [feature.relative for feature in spec.action for _ in range(feature.size)]
    named = zip(columns, spec.action_names, own, strict=True)
    return {joint: name for joint, name, made in named if made and joint is not None}


def problems(
    said: Said, spec: PolicySpec, made: Mapping[str, str], commands: Sequence[Compared]
) -> list[str]:
    """Columns to which the observed position must not be added, though ``said`` says so. made: as
    ``made_absolute`` finds them. commands: as ``compare`` does."""
    twice = {joint: name for joint, name in made.items() if joint in said.relative}
    lines = []
    if twice:
        lines.append(
            said.problem(
                f"no joint whose column the checkpoint makes absolute itself, for the observed "
                f"position would be added twice: {spec.checkpoint} does so of "
                f"{', '.join(f'{name!r} ({joint})' for joint, name in twice.items())}",
                list(twice),
            )
        )
    placed = [
        c for c in commands if c.name in said.relative and c.name not in twice and c.positions()
    ]
    if placed:
        told = ", ".join(
            f"{c.name!r} to {between(c.sent)} (it was at {between(c.was)})" for c in placed
        )
        lines.append(
            said.problem(
                f"columns that are offsets from the observed position, but training sent {told} "
                f"in {spec.checkpoint}: these are positions",
                [*twice, *(c.name for c in placed)],
            )
        )
    return lines


def doubt(said: Said, made: Mapping[str, str], commands: Sequence[Compared]) -> str:
    """Why columns that nothing says to be offsets likely are; empty where they are not or nothing
    tells. Arguments as ``problems``."""
    known = {*said.relative, *made, *said.robot.discrete_joints}
    told = [c for c in commands if c.name not in known and c.tells]
    found = [c for c in told if c.offsets()]
    if not found or 2 * len(found) < len(told):
        return ""
    seen = ", ".join(f"{c.name} to {between(c.sent)} (it was at {between(c.was)})" for c in found)
    return (
        f"action: training sent {seen}: these look like offsets from the observed position, and "
        f"are taken for positions. If they are offsets, {said.robot.source} lacks actions: "
        f"relative, or {said.model} lacks relative: with these joints"
    )


@dataclass(frozen=True)
class Compared:
    """What a joint was sent in training and where it was, mostly, each (low, high), both in the
    numbers of its action's column. near: in these, how far from zero is near it."""

    name: str
    sent: tuple[float, float]
    was: tuple[float, float]
    near: float

    @property
    def tells(self) -> bool:
        """Where a joint is near zero itself, positions and offsets look alike."""
        return not _holds_zero(self.was, self.near)

    def positions(self) -> bool:
        """Whether what was sent can only be positions."""
        whole = max(self.sent[1], self.was[1]) - min(self.sent[0], self.was[0])
        alike = self._common() > _ALIKE * whole
        return self.tells and not _holds_zero(self.sent, self.near) and alike

    def offsets(self) -> bool:
        """Whether what was sent is about zero and not where the joint was, where that tells."""
        reached = _ELSEWHERE * (self.was[1] - self.was[0])
        return _holds_zero(self.sent, 0.0) and self._common() <= reached

    def _common(self) -> float:
        return max(0.0, min(self.sent[1], self.was[1]) - max(self.sent[0], self.was[0]))


def compare(
    spec: PolicySpec,
    columns: Sequence[str | None],
    maps: Mapping[str, ValueMapping],
    state: Sequence[Seen],
) -> list[Compared]:
    """The joints of which both statistics tell. columns: the joint of each action column. maps:
    joint -> its command's mapping. state: the joints of the state's columns."""
    was = {seen.name: seen for seen in state}
    found = []
    for name, low, high in zip(columns, *usual(spec.action), strict=True):
        if name is None or name not in was or not np.isfinite((low, high)).all():
            continue
        to_model = maps[name].to_model
        first, last = sorted(float(end) for end in to_model(np.array(was[name].would)))
        travel = np.array(was[name].joint.position)
        ends = to_model(travel)
        near = LEAST * abs(float((ends[1] - ends[0]) / (travel[1] - travel[0])))
        found.append(Compared(name, (float(low), float(high)), (first, last), near))
    return found


def _holds_zero(ends: tuple[float, float], near: float) -> bool:
    return ends[0] <= near and ends[1] >= -near
