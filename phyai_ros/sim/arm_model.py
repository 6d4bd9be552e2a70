# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The UR10e and its parallel gripper as MJCF.

A body of the arm carries the DH frame before its joint's link, so that body poses equal the
published kinematics.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim import mjcf

MIRROR_JOINT = "finger_mirror_joint"
"""The second finger: the same motor drives it, so it is no joint of the robot's interface."""

_LINK_MASS = (7.369, 13.051, 3.989, 2.1, 1.98, 0.615)  # kg, ur_description, UR10e


def add_arm(world: ET.Element) -> None:
    """Tubes along the links and drums along the joint axes, in the proportions of the UR10e."""
    # base_link is the DH base turned by half a turn about z.
    body = mjcf.add(world, "body", name="base", quat=(0, 0, 0, 1))
    mjcf.drum(body, (0, 0, 0.0), (0, 0, 0.086), 0.075, "dark", mass=4.0)
    position, tilt = np.zeros(3), 0.0
    for i, name in enumerate(kin.ARM_JOINTS):
        body = mjcf.add(
            body,
            "body",
            name=name.replace("joint", "link"),
            pos=position,
            quat=(np.cos(tilt / 2), np.sin(tilt / 2), 0, 0),
        )
        mjcf.add(
            body,
            "joint",
            name=name,
            type="hinge",
            axis=(0, 0, 1),
            range=kin.POSITION_LIMITS[i],
            armature=0.1 if i < 3 else 0.02,
        )
        _LINKS[i](body, _LINK_MASS[i])
        position = np.array([kin.DH_A[i], 0.0, kin.DH_D[i]])
        tilt = kin.DH_ALPHA[i]
    flange = mjcf.add(body, "body", name="flange", pos=position)
    _gripper(flange)


def _shoulder(body: ET.Element, mass: float) -> None:
    mjcf.drum(body, (0, 0, 0.086), (0, 0, 0.19), 0.075, "shell", mass)
    mjcf.drum(body, (0, 0.085, 0.1807), (0, -0.088, 0.1807), 0.078, "shell")
    mjcf.drum(body, (0, 0.085, 0.1807), (0, 0.103, 0.1807), 0.070, "cap")


def _upper_arm(body: ET.Element, mass: float) -> None:
    mjcf.drum(body, (0, 0, 0.09), (0, 0, 0.252), 0.078, "shell")
    mjcf.drum(body, (0, 0, 0.252), (0, 0, 0.268), 0.070, "cap")
    mjcf.drum(body, (0, 0, 0.176), (-0.6127, 0, 0.176), 0.058, "shell", mass)
    mjcf.drum(body, (-0.6127, 0, 0.098), (-0.6127, 0, 0.240), 0.066, "shell")
    mjcf.drum(body, (-0.6127, 0, 0.240), (-0.6127, 0, 0.254), 0.059, "cap")


def _forearm(body: ET.Element, mass: float) -> None:
    mjcf.drum(body, (0, 0, -0.022), (0, 0, 0.096), 0.064, "shell")
    mjcf.drum(body, (0, 0, -0.036), (0, 0, -0.022), 0.057, "cap")
    mjcf.drum(body, (0, 0, 0.045), (-0.57155, 0, 0.045), 0.047, "shell", mass)
    mjcf.drum(body, (-0.57155, 0, -0.012), (-0.57155, 0, 0.108), 0.050, "shell")
    mjcf.drum(body, (-0.57155, 0, -0.024), (-0.57155, 0, -0.012), 0.044, "cap")


def _wrist_1(body: ET.Element, mass: float) -> None:
    mjcf.drum(body, (0, 0, 0.110), (0, 0, 0.222), 0.048, "shell", mass)
    mjcf.drum(body, (0, 0, 0.222), (0, 0, 0.234), 0.042, "cap")
    mjcf.drum(body, (0, 0, 0.17415), (0, -0.058, 0.17415), 0.048, "shell")


def _wrist_2(body: ET.Element, mass: float) -> None:
    mjcf.drum(body, (0, 0, 0.060), (0, 0, 0.168), 0.048, "shell", mass)
    mjcf.drum(body, (0, 0, 0.168), (0, 0, 0.180), 0.042, "cap")
    mjcf.drum(body, (0, 0, 0.11985), (0, 0.060, 0.11985), 0.048, "shell")


def _wrist_3(body: ET.Element, mass: float) -> None:
    mjcf.drum(body, (0, 0, 0.062), (0, 0, 0.11655), 0.046, "shell", mass)


_LINKS = (_shoulder, _upper_arm, _forearm, _wrist_1, _wrist_2, _wrist_3)


def _gripper(flange: ET.Element) -> None:
    """Two fingers that open by ``finger_joint`` each; the tool centre lies between their tips."""
    mjcf.drum(flange, (0, 0, 0), (0, 0, 0.018), 0.040, "dark", mass=0.2)
    mjcf.add(
        flange,
        "geom",
        type="box",
        pos=(0, 0, 0.040),
        size=(0.030, 0.058, 0.024),
        material="grip",
        mass=0.6,
    )
    mjcf.drum(flange, (-0.03, 0, 0.022), (-0.100, 0, 0.036), 0.012, "dark")
    mjcf.camera(
        flange,
        "wrist",
        (-0.105, 0, 0.040),
        (0.02, 0, kin.TOOL_LENGTH + 0.07),
        fovy=72.0,
        up=(1, 0, 0),
    )
    for name, side in ((kin.FINGER_JOINT, 1.0), (MIRROR_JOINT, -1.0)):
        finger = mjcf.add(
            flange, "body", name=name.replace("joint", "link"), pos=(0, side * 0.012, 0.06)
        )
        mjcf.add(
            finger,
            "joint",
            name=name,
            type="slide",
            axis=(0, side, 0),
            range=kin.POSITION_LIMITS[6],
            armature=0.05,
        )
        mjcf.add(
            finger,
            "geom",
            type="box",
            pos=(0, 0, 0.045),
            size=(0.012, 0.007, 0.045),
            material="dark",
            mass=0.05,
            contype=1,
            conaffinity=1,
        )
        mjcf.add(
            finger,
            "geom",
            type="box",
            pos=(0, 0, 0.082),
            size=(0.013, 0.009, 0.014),
            material="cap",
            mass=0.0,
            contype=0,
            conaffinity=0,
        )
