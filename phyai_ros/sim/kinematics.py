# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""UR10e kinematics: published DH parameters, limits, forward and tool-down inverse kinematics.

Frames follow ur_description: ``base_link`` is the world of the simulator (x forward, z up); the DH
base frame is ``base_link`` turned by pi about z, so that the arm reaches along +x at pan zero.
Every function takes any number of leading batch dimensions.
"""

from __future__ import annotations

import numpy as np

ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
FINGER_JOINT = "finger_joint"
JOINTS = (*ARM_JOINTS, FINGER_JOINT)

# Standard DH parameters, Universal Robots, "DH parameters for calculations of kinematics and
# dynamics", UR10e. Metres and radians.
DH_A = np.array([0.0, -0.6127, -0.57155, 0.0, 0.0, 0.0])
DH_D = np.array([0.1807, 0.0, 0.0, 0.17415, 0.11985, 0.11655])
DH_ALPHA = np.array([np.pi / 2, 0.0, 0.0, np.pi / 2, -np.pi / 2, 0.0])

# ur_description, config/ur10e/joint_limits.yaml: position (rad), velocity (rad/s), effort (N m);
# last entry: the gripper's finger (m, m/s, N).
POSITION_LIMITS = np.array(
    [[-2 * np.pi, 2 * np.pi]] * 2
    + [[-np.pi, np.pi]]
    + [[-2 * np.pi, 2 * np.pi]] * 3
    + [[0.0, 0.04]]
)
VELOCITY_LIMITS = np.concatenate([np.deg2rad([120.0, 120.0, 180.0, 180.0, 180.0, 180.0]), [0.15]])
EFFORT_LIMITS = np.array([330.0, 330.0, 150.0, 56.0, 56.0, 56.0, 40.0])

TOOL_LENGTH = 0.15
"""Flange (DH frame 6) to tool centre point, along the flange's z. Metres."""

HOME = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0.0])
"""The usual ready pose: forearm level, tool pointing down."""


class UnreachableError(ValueError):
    """A point that the arm cannot reach with its tool pointing down."""


def wrap(angle: np.ndarray) -> np.ndarray:
    """Angle(s) in rad to [-pi, pi)."""
    return (np.asarray(angle) + np.pi) % (2 * np.pi) - np.pi


def forward(q: np.ndarray) -> np.ndarray:
    """Arm joints [..., 6] (rad) -> flange pose [..., 4, 4] in base_link."""
    q = np.asarray(q, dtype=np.float64)
    pose = np.zeros((*q.shape[:-1], 4, 4))
    pose[..., 0, 0] = pose[..., 1, 1] = -1.0  # base_link -> DH base: half a turn about z
    pose[..., 2, 2] = pose[..., 3, 3] = 1.0
    for i in range(6):
        c, s = np.cos(q[..., i]), np.sin(q[..., i])
        ca, sa = np.cos(DH_ALPHA[i]), np.sin(DH_ALPHA[i])
        link = np.zeros((*q.shape[:-1], 4, 4))
        link[..., 0, 0], link[..., 0, 1], link[..., 0, 2] = c, -s * ca, s * sa
        link[..., 1, 0], link[..., 1, 1], link[..., 1, 2] = s, c * ca, -c * sa
        link[..., 0, 3], link[..., 1, 3] = DH_A[i] * c, DH_A[i] * s
        link[..., 2, 1], link[..., 2, 2], link[..., 2, 3] = sa, ca, DH_D[i]
        link[..., 3, 3] = 1.0
        pose = pose @ link
    return pose


def tool(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arm joints [..., 6] -> tool centre point [..., 3] (m) and pointing direction [..., 3]."""
    pose = forward(q)
    direction = pose[..., :3, 2]
    return pose[..., :3, 3] + TOOL_LENGTH * direction, direction


def tool_down(point: np.ndarray, wrist_3: float | np.ndarray = 0.0) -> np.ndarray:
    """Arm joints [..., 6] that put the tool centre at ``point`` [..., 3] (m), pointing down.

    In closed form; of the eight solutions it gives the one of the ready pose (shoulder forward,
    elbow up, wrist 2 at -90 degrees), which varies smoothly over the table. ``wrist_3`` is free
    (it turns the tool about the vertical). Raises UnreachableError naming the first point out of
    reach.
    """
    point = np.asarray(point, dtype=np.float64)
    # Origin of DH frame 5 in the DH base frame: straight above the tool centre point.
    x, y = -point[..., 0], -point[..., 1]
    z = point[..., 2] + TOOL_LENGTH + DH_D[5]
    radius = np.hypot(x, y)
    _refuse(point, radius < DH_D[3], "too close to the base's axis")
    pan = wrap(np.arctan2(y, x) + np.pi - np.arcsin(DH_D[3] / radius))
    # With the tool down, the axis of wrist 2 is level: what is left is a two-link arm in a plane.
    along = -(x * np.cos(pan) + y * np.sin(pan) + DH_D[4])
    below = -(z - DH_D[0])
    upper, fore = -DH_A[1], -DH_A[2]
    cosine = (along**2 + below**2 - upper**2 - fore**2) / (2 * upper * fore)
    _refuse(point, np.abs(cosine) > 1.0, "out of reach")
    elbow = np.arccos(cosine)
    lift = wrap(
        np.arctan2(below, along) - np.arctan2(fore * np.sin(elbow), upper + fore * np.cos(elbow))
    )
    wrist_1 = -np.pi / 2 - lift - elbow
    wrist_2 = np.full_like(pan, -np.pi / 2)
    return np.stack(
        [pan, lift, elbow, wrist_1, wrist_2, np.broadcast_to(wrist_3, pan.shape)], axis=-1
    )


def _refuse(point: np.ndarray, bad: np.ndarray, why: str) -> None:
    if np.any(bad):
        first = point[bad][0] if point.ndim > 1 else point
        raise UnreachableError(f"tool point {np.round(first, 3).tolist()} m: {why}")
