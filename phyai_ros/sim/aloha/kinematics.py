# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ViperX 300 6DOF kinematics as gym-aloha's MJCF has them, limits, and the gripper's crank.

The world is the MJCF's: x to the right arm, y away from the operator, z up from the table. Each
arm's base stands on the table and looks along +x at its own waist zero; the right one is turned by
half a turn, so that the arms face each other. Every function takes leading batch dimensions.
"""

from __future__ import annotations

import numpy as np

SIDES = ("left", "right")
ARM_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
JOINTS = tuple(f"{side}_{joint}" for side in SIDES for joint in (*ARM_JOINTS, "gripper"))
"""ALOHA's order: left arm, left gripper, right arm, right gripper."""
LEFT, RIGHT = slice(0, 7), slice(7, 14)
GRIPPERS = (6, 13)
ARMS = tuple(i for i in range(14) if i not in GRIPPERS)

# Base of each arm in the world, m and rad (the MJCF's bodies vx300s_left and vx300s_right).
BASE = {"left": (-0.469, 0.5, 0.0), "right": (0.469, 0.5, np.pi)}
SHOULDER_HEIGHT = 0.079 + 0.04805
UPPER_ARM = (0.05955, 0.3)  # shoulder to elbow at zero: forward, up
FOREARM = 0.2 + 0.1
GRIPPER_LINK = 0.069744
"""Wrist to the MJCF's gripper_link along the gripper, m."""
GRASP = 0.135
"""gripper_link to the grasp point between the finger pads, m; the finger tips end at 0.154."""

# Interbotix vx300s.urdf.xacro: position (rad), velocity (rad/s), effort (N m); the gripper's
# position is its motor's angle from ALOHA's closed to its open one (act constants).
_ARM_RANGE = [
    [-np.pi, np.pi],
    [-1.85005, 1.25664],
    [-1.76278, 1.6057],
    [-np.pi, np.pi],
    [-1.8675, 2.23402],
    [-np.pi, np.pi],
]
CLOSED, OPEN = -0.6213, 1.4910
POSITION_LIMITS = np.array([*_ARM_RANGE, [CLOSED, OPEN]] * 2)
VELOCITY_LIMITS = np.array([np.pi] * 6 + [4 * np.pi] + [np.pi] * 6 + [4 * np.pi])
EFFORT_LIMITS = np.array([10.0, 20.0, 15.0, 2.0, 5.0, 1.0])
FINGER_FORCE = 50.0
"""Of each finger, N."""

ARM_LENGTH, HORN_RADIUS = 0.036, 0.022
"""Of the gripper's crank, m (Interbotix xs_sdk, vx300s)."""

HOME = np.array([0.0, -0.96, 1.16, 0.0, -0.3, 0.0])
"""The start pose of an arm in ACT and gym-aloha."""
HOME_OPENING = 0.02239
"""Of a finger in that pose, m: the pads just touch."""


class UnreachableError(ValueError):
    """A point that the arm cannot reach with its gripper at the asked pitch."""


def opening(angle: np.ndarray) -> np.ndarray:
    """Motor angle (rad) -> finger opening (m): x = r sin(a) + sqrt(l^2 - (r cos(a))^2)."""
    across = HORN_RADIUS * np.sin(angle)
    return across + np.sqrt(across**2 + ARM_LENGTH**2 - HORN_RADIUS**2)


def angle(opening_: np.ndarray) -> np.ndarray:
    """The inverse of ``opening`` up to the stretched crank at r + l."""
    x = np.asarray(opening_, dtype=np.float64)
    sine = (HORN_RADIUS**2 + x**2 - ARM_LENGTH**2) / (2.0 * HORN_RADIUS * x)
    return np.arcsin(np.clip(sine, -1.0, 1.0))


def opening_rate(angle_: np.ndarray) -> np.ndarray:
    """d opening / d angle, m/rad."""
    across = HORN_RADIUS * np.sin(angle_)
    root = np.sqrt(across**2 + ARM_LENGTH**2 - HORN_RADIUS**2)
    return HORN_RADIUS * np.cos(angle_) * (1.0 + across / root)


def _turned(x: float, z: float, pitch: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """A vector (forward, up) turned about +y: positive pitch looks down."""
    c, s = np.cos(pitch), np.sin(pitch)
    return x * c + z * s, z * c - x * s


def grasp_point(q: np.ndarray, side: str) -> np.ndarray:
    """Arm joints [..., 6] with forearm_roll and wrist_rotate zero -> grasp point [..., 3], m."""
    q = np.asarray(q, dtype=np.float64)
    upper = q[..., 1]
    fore = upper + q[..., 2]
    hand = fore + q[..., 4]
    r, z = _turned(*UPPER_ARM, upper)
    for length, pitch in ((FOREARM, fore), (GRIPPER_LINK + GRASP, hand)):
        dr, dz = _turned(length, 0.0, pitch)
        r, z = r + dr, z + dz
    x, y, yaw = BASE[side]
    heading = yaw + q[..., 0]
    return np.stack(
        [x + r * np.cos(heading), y + r * np.sin(heading), z + SHOULDER_HEIGHT], axis=-1
    )


def reach(point: np.ndarray, side: str, pitch: float = np.deg2rad(60.0)) -> np.ndarray:
    """Grasp point [..., 3] (m) -> arm joints [..., 6], rolls zero, the gripper ``pitch`` (rad)
    below the horizontal, elbow up. Raises UnreachableError."""
    point = np.asarray(point, dtype=np.float64)
    x, y, yaw = BASE[side]
    dx, dy = point[..., 0] - x, point[..., 1] - y
    waist = _wrap(np.arctan2(dy, dx) - yaw)
    along, down = _turned(GRIPPER_LINK + GRASP, 0.0, pitch)
    r = np.hypot(dx, dy) - along
    z = point[..., 2] - SHOULDER_HEIGHT - down
    first = float(np.hypot(*UPPER_ARM))
    lean = np.arctan2(UPPER_ARM[0], UPPER_ARM[1])  # of the upper arm from the vertical, at zero
    distance = np.hypot(r, z)
    cosine = (first**2 + FOREARM**2 - distance**2) / (2 * first * FOREARM)
    if np.any(np.abs(cosine) > 1.0):
        raise UnreachableError(f"{side} arm: a point of {point.tolist()} is out of reach")
    inner = np.arccos(cosine)  # between the links, at the elbow
    rise = np.arctan2(z, r) + np.arccos(
        (first**2 + distance**2 - FOREARM**2) / (2 * first * distance)
    )  # of the upper arm over the horizontal
    shoulder = np.pi / 2 - lean - rise
    fore = np.pi - inner - rise  # pitch of the forearm below the horizontal
    elbow = fore - shoulder
    zero = np.zeros_like(waist)
    q = np.stack([waist, shoulder, elbow, zero, pitch - fore, zero], axis=-1)
    low, high = np.array(_ARM_RANGE).T
    if np.any(q < low) or np.any(q > high):
        raise UnreachableError(f"{side} arm: a point of {point.tolist()} is beyond a joint's limit")
    return q


def _wrap(angle_: np.ndarray) -> np.ndarray:
    return (angle_ + np.pi) % (2 * np.pi) - np.pi
