# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where a robot's tool is: a serial chain in standard Denavit-Hartenberg parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from phyai_ros.robots.numbers import Metres, Radians


class Link(BaseModel):
    """One row: a, d in metres, alpha in rad, and the revolute joint that turns it (theta = joint
    position + offset)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    joint: str
    a: Metres = 0.0
    d: Metres = 0.0
    alpha: Radians = 0.0
    offset: Radians = 0.0


class Chain(BaseModel):
    """links: from the base outwards. tool: tool centre point in the last frame, metres."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    links: Annotated[tuple[Link, ...], Field(min_length=1)]
    tool: tuple[Metres, Metres, Metres] = (0.0, 0.0, 0.0)

    @model_validator(mode="after")
    def _distinct(self) -> Chain:
        joints = [link.joint for link in self.links]
        if len(set(joints)) != len(joints):
            raise ValueError(f"links: expected every joint once, found {joints}")
        return self


class Forward:
    """Forward kinematics of one chain for arrays in a given joint order."""

    def __init__(self, chain: Chain, names: Sequence[str]) -> None:
        order = list(names)
        self._columns = [order.index(link.joint) for link in chain.links]
        self._offsets = [link.offset for link in chain.links]
        self._fixed = [
            (np.cos(link.alpha), np.sin(link.alpha), link.a, link.d) for link in chain.links
        ]
        self._tool = chain.tool

    @property
    def tool(self) -> tuple[float, float, float]:
        """Tool centre point in the last link's frame, metres."""
        return self._tool

    def frames(self, positions: np.ndarray) -> np.ndarray:
        """positions [..., joints], rad -> the last link's frame [..., 4, 4] in the base frame."""
        positions = np.asarray(positions, np.float64)
        pose = np.broadcast_to(np.eye(4), (*positions.shape[:-1], 4, 4))
        for column, offset, (ca, sa, a, d) in zip(
            self._columns, self._offsets, self._fixed, strict=True
        ):
            theta = positions[..., column] + offset
            c, s = np.cos(theta), np.sin(theta)
            link = np.zeros((*theta.shape, 4, 4))
            link[..., 0, 0], link[..., 0, 1], link[..., 0, 2] = c, -s * ca, s * sa
            link[..., 1, 0], link[..., 1, 1], link[..., 1, 2] = s, c * ca, -c * sa
            link[..., 0, 3], link[..., 1, 3] = a * c, a * s
            link[..., 2, 1], link[..., 2, 2], link[..., 2, 3] = sa, ca, d
            link[..., 3, 3] = 1.0
            pose = pose @ link
        return pose

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """positions [joints], rad -> tool centre point [3] in the base frame, metres."""
        x, y, z = self._tool
        # From the tool inwards: one point is cheaper to carry than six matrices.
        for column, offset, (ca, sa, a, d) in zip(
            reversed(self._columns), reversed(self._offsets), reversed(self._fixed), strict=True
        ):
            theta = float(positions[column]) + offset
            c, s = np.cos(theta), np.sin(theta)
            x, y, z = (
                c * x - s * ca * y + s * sa * z + a * c,
                s * x + c * ca * y - c * sa * z + a * s,
                sa * y + ca * z + d,
            )
        return np.array([x, y, z])
