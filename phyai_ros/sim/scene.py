# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The simulated cell as MJCF, written by code: UR10e, parallel gripper, table, blocks, cameras.

Only primitives: a frame costs a few milliseconds on a software renderer. A body of the arm carries
the DH frame before its joint's link, so that body poses equal the published kinematics.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping

import numpy as np

from phyai_ros.sim import kinematics as kin

COLOURS: Mapping[str, tuple[float, float, float]] = {
    "red": (0.86, 0.12, 0.10),
    "green": (0.13, 0.66, 0.25),
    "blue": (0.11, 0.33, 0.88),
}
BLOCK_HALF = 0.03
"""Half the edge of a block, m."""
CAMERAS = ("scene", "wrist")
MIRROR_JOINT = "finger_mirror_joint"
"""The second finger: the same motor drives it, so it is no joint of the robot's interface."""

_FLOOR = -0.75
_LINK_MASS = (7.369, 13.051, 3.989, 2.1, 1.98, 0.615)  # kg, ur_description, UR10e


def mjcf(belt: tuple[float, float, float] | None = None, timestep: float = 0.002) -> str:
    """The cell as an MJCF document.

    belt: (x, y minimum, y maximum) of a conveyor along y, or none. timestep: s.
    """
    root = ET.Element("mujoco", model="phyai_ur10e_cell")
    _add(root, "compiler", angle="radian", autolimits="true")
    option = _add(root, "option", timestep=timestep, integrator="implicitfast")
    _add(option, "flag", multiccd="disable")
    visual = _add(root, "visual")
    _add(
        visual,
        "headlight",
        ambient=(0.36, 0.36, 0.38),
        diffuse=(0.22, 0.22, 0.22),
        specular=(0.0, 0.0, 0.0),
    )
    _add(visual, "quality", shadowsize=1024, offsamples=0, numslices=20, numstacks=10)
    _add(visual, "map", znear=0.02, zfar=12, shadowclip=1.2, fogstart=3, fogend=8)
    _add(visual, "rgba", fog=(0.90, 0.93, 0.96, 1))
    _assets(_add(root, "asset"))
    world = _add(root, "worldbody")
    _add(
        world,
        "light",
        name="key",
        pos=(1.2, -0.9, 2.4),
        dir=(-0.28, 0.42, -1.0),
        diffuse=(0.50, 0.49, 0.46),
        specular=(0.12, 0.12, 0.12),
        castshadow="true",
        type="directional",
    )
    _room(world, belt)
    _arm(world)
    for colour in COLOURS:
        _block(world, colour)
    _camera(world, "scene", (1.40, -0.30, 0.84), (0.575, 0.0, 0.04), fovy=41.0)
    _camera(world, "overview", (1.55, -1.25, 0.95), (0.38, 0.0, 0.22), fovy=46.0)
    return ET.tostring(root, encoding="unicode")


def _assets(asset: ET.Element) -> None:
    _add(
        asset,
        "texture",
        type="skybox",
        builtin="gradient",
        rgb1=(0.93, 0.95, 0.98),
        rgb2=(0.62, 0.72, 0.84),
        width=64,
        height=384,
    )
    _add(
        asset,
        "texture",
        name="checker",
        type="2d",
        builtin="checker",
        width=256,
        height=256,
        rgb1=(0.80, 0.83, 0.87),
        rgb2=(0.70, 0.74, 0.79),
    )
    _add(
        asset,
        "material",
        name="floor",
        texture="checker",
        texrepeat=(10, 10),
        specular=0,
        shininess=0,
    )
    for name, colour in {
        "table": (0.93, 0.90, 0.85),
        "edge": (0.34, 0.37, 0.42),
        "shell": (0.86, 0.88, 0.90),
        "cap": (0.36, 0.62, 0.80),
        "dark": (0.17, 0.18, 0.21),
        "grip": (0.25, 0.26, 0.30),
        "belt": (0.30, 0.31, 0.34),
        "mark": (0.80, 0.77, 0.71),
    }.items():
        _add(asset, "material", name=name, rgba=(*colour, 1), specular=0.25, shininess=0.3)
    for name, colour in COLOURS.items():
        _add(asset, "material", name=name, rgba=(*colour, 1), specular=0.3, shininess=0.4)


def _room(world: ET.Element, belt: tuple[float, float, float] | None) -> None:
    _add(
        world,
        "geom",
        type="plane",
        pos=(0, 0, _FLOOR),
        size=(5, 5, 0.1),
        material="floor",
        contype=0,
        conaffinity=0,
    )
    _add(
        world,
        "geom",
        name="table",
        type="box",
        pos=(0.52, 0, -0.02),
        size=(0.52, 0.62, 0.02),
        material="table",
        friction=(0.9, 0.01, 0.001),
    )
    seen = {"contype": 0, "conaffinity": 0}
    _add(
        world,
        "geom",
        type="box",
        pos=(0.52, 0, -0.055),
        size=(0.50, 0.60, 0.015),
        material="edge",
        **seen,
    )
    for x in (0.06, 0.98):
        for y in (-0.56, 0.56):
            _add(
                world,
                "geom",
                type="box",
                pos=(x, y, (_FLOOR - 0.07) / 2),
                size=(0.03, 0.03, -(_FLOOR + 0.07) / 2),
                material="edge",
                **seen,
            )
    _add(
        world,
        "geom",
        type="cylinder",
        pos=(0, 0, 0.005),
        size=(0.13, 0.005),
        material="dark",
        **seen,
    )
    _add(
        world,
        "geom",
        type="box",
        pos=(-0.0, 0, (_FLOOR - 0.04) / 2),
        size=(0.12, 0.12, -(_FLOOR + 0.04) / 2),
        material="dark",
        **seen,
    )
    if belt is not None:
        x, low, high = belt
        _add(
            world,
            "geom",
            name="belt",
            type="box",
            pos=(x, (low + high) / 2, 0.0),
            size=(0.055, (high - low) / 2 + 0.08, 0.0012),
            material="belt",
            **seen,
        )
        for side in (-0.062, 0.062):
            _add(
                world,
                "geom",
                type="box",
                pos=(x + side, (low + high) / 2, 0.004),
                size=(0.006, (high - low) / 2 + 0.08, 0.004),
                material="shell",
                **seen,
            )


def _arm(world: ET.Element) -> None:
    """Tubes along the links and drums along the joint axes, in the proportions of the UR10e."""
    # base_link is the DH base turned by half a turn about z.
    body = _add(world, "body", name="base", quat=(0, 0, 0, 1))
    _drum(body, (0, 0, 0.0), (0, 0, 0.086), 0.075, "dark", mass=4.0)
    position, tilt = np.zeros(3), 0.0
    for i, name in enumerate(kin.ARM_JOINTS):
        body = _add(
            body,
            "body",
            name=name.replace("joint", "link"),
            pos=position,
            quat=(np.cos(tilt / 2), np.sin(tilt / 2), 0, 0),
        )
        _add(
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
    flange = _add(body, "body", name="flange", pos=position)
    _gripper(flange)


def _shoulder(body: ET.Element, mass: float) -> None:
    _drum(body, (0, 0, 0.086), (0, 0, 0.19), 0.075, "shell", mass)
    _drum(body, (0, 0.085, 0.1807), (0, -0.088, 0.1807), 0.078, "shell")
    _drum(body, (0, 0.085, 0.1807), (0, 0.103, 0.1807), 0.070, "cap")


def _upper_arm(body: ET.Element, mass: float) -> None:
    _drum(body, (0, 0, 0.09), (0, 0, 0.252), 0.078, "shell")
    _drum(body, (0, 0, 0.252), (0, 0, 0.268), 0.070, "cap")
    _drum(body, (0, 0, 0.176), (-0.6127, 0, 0.176), 0.058, "shell", mass)
    _drum(body, (-0.6127, 0, 0.098), (-0.6127, 0, 0.240), 0.066, "shell")
    _drum(body, (-0.6127, 0, 0.240), (-0.6127, 0, 0.254), 0.059, "cap")


def _forearm(body: ET.Element, mass: float) -> None:
    _drum(body, (0, 0, -0.022), (0, 0, 0.096), 0.064, "shell")
    _drum(body, (0, 0, -0.036), (0, 0, -0.022), 0.057, "cap")
    _drum(body, (0, 0, 0.045), (-0.57155, 0, 0.045), 0.047, "shell", mass)
    _drum(body, (-0.57155, 0, -0.012), (-0.57155, 0, 0.108), 0.050, "shell")
    _drum(body, (-0.57155, 0, -0.024), (-0.57155, 0, -0.012), 0.044, "cap")


def _wrist_1(body: ET.Element, mass: float) -> None:
    _drum(body, (0, 0, 0.110), (0, 0, 0.222), 0.048, "shell", mass)
    _drum(body, (0, 0, 0.222), (0, 0, 0.234), 0.042, "cap")
    _drum(body, (0, 0, 0.17415), (0, -0.058, 0.17415), 0.048, "shell")


def _wrist_2(body: ET.Element, mass: float) -> None:
    _drum(body, (0, 0, 0.060), (0, 0, 0.168), 0.048, "shell", mass)
    _drum(body, (0, 0, 0.168), (0, 0, 0.180), 0.042, "cap")
    _drum(body, (0, 0, 0.11985), (0, 0.060, 0.11985), 0.048, "shell")


def _wrist_3(body: ET.Element, mass: float) -> None:
    _drum(body, (0, 0, 0.062), (0, 0, 0.11655), 0.046, "shell", mass)


_LINKS = (_shoulder, _upper_arm, _forearm, _wrist_1, _wrist_2, _wrist_3)


def _gripper(flange: ET.Element) -> None:
    """Two fingers that open by ``finger_joint`` each; the tool centre lies between their tips."""
    _drum(flange, (0, 0, 0), (0, 0, 0.018), 0.040, "dark", mass=0.2)
    _add(
        flange,
        "geom",
        type="box",
        pos=(0, 0, 0.040),
        size=(0.030, 0.058, 0.024),
        material="grip",
        mass=0.6,
    )
    _drum(flange, (-0.03, 0, 0.022), (-0.100, 0, 0.036), 0.012, "dark")
    _camera(
        flange,
        "wrist",
        (-0.105, 0, 0.040),
        (0.02, 0, kin.TOOL_LENGTH + 0.07),
        fovy=72.0,
        up=(1, 0, 0),
    )
    for name, side in ((kin.FINGER_JOINT, 1.0), (MIRROR_JOINT, -1.0)):
        finger = _add(
            flange, "body", name=name.replace("joint", "link"), pos=(0, side * 0.012, 0.06)
        )
        _add(
            finger,
            "joint",
            name=name,
            type="slide",
            axis=(0, side, 0),
            range=kin.POSITION_LIMITS[6],
            armature=0.05,
        )
        _add(
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
        _add(
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


def _block(world: ET.Element, colour: str) -> None:
    body = _add(world, "body", name=f"{colour}_block", pos=(0.6, 0, BLOCK_HALF))
    _add(body, "freejoint", name=f"{colour}_block")
    _add(
        body,
        "geom",
        name=f"{colour}_block",
        type="box",
        size=(BLOCK_HALF,) * 3,
        material=colour,
        mass=0.2,
        friction=(0.9, 0.01, 0.001),
    )


def _drum(
    body: ET.Element,
    start: Iterable[float],
    end: Iterable[float],
    radius: float,
    material: str,
    mass: float = 0.0,
) -> None:
    _add(
        body,
        "geom",
        type="cylinder",
        fromto=(*start, *end),
        size=(radius,),
        material=material,
        mass=mass,
        contype=0,
        conaffinity=0,
    )


def _camera(
    parent: ET.Element,
    name: str,
    position: tuple[float, float, float],
    target: tuple[float, float, float],
    fovy: float,
    up: tuple[float, float, float] = (0, 0, 1),
) -> None:
    """A camera that looks from ``position`` at ``target``; ``fovy`` in degrees."""
    back = np.subtract(position, target)
    right = np.cross(up, back)
    right /= np.linalg.norm(right)
    above = np.cross(back, right)
    _add(parent, "camera", name=name, pos=position, xyaxes=(*right, *above), fovy=fovy)


def _add(parent: ET.Element, tag: str, **attributes: object) -> ET.Element:
    return ET.SubElement(parent, tag, {k: _text(v) for k, v in attributes.items()})


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return " ".join(repr(float(v)) for v in value)
    return repr(value)
