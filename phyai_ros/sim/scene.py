# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The simulated cell as MJCF, written by code: UR10e, parallel gripper, table, blocks, cameras.

Only primitives: a frame costs a few milliseconds on a software renderer.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from phyai_ros.sim import arm_model, mjcf

COLOURS: Mapping[str, tuple[float, float, float]] = {
    "red": (0.86, 0.12, 0.10),
    "green": (0.13, 0.66, 0.25),
    "blue": (0.11, 0.33, 0.88),
}
BLOCK_HALF = 0.03
"""Half the edge of a block, m."""
CAMERAS = ("scene", "wrist")
_FLOOR = -0.75


def document(belt: tuple[float, float, float] | None = None, timestep: float = 0.002) -> str:
    """The cell as an MJCF document.

    belt: (x, y minimum, y maximum) of a conveyor along y, or none. timestep: s.
    """
    root = ET.Element("mujoco", model="phyai_ur10e_cell")
    mjcf.add(root, "compiler", angle="radian", autolimits="true")
    option = mjcf.add(root, "option", timestep=timestep, integrator="implicitfast")
    mjcf.add(option, "flag", multiccd="disable")
    visual = mjcf.add(root, "visual")
    mjcf.add(
        visual,
        "headlight",
        ambient=(0.36, 0.36, 0.38),
        diffuse=(0.22, 0.22, 0.22),
        specular=(0.0, 0.0, 0.0),
    )
    mjcf.add(visual, "quality", shadowsize=1024, offsamples=0, numslices=20, numstacks=10)
    mjcf.add(visual, "map", znear=0.02, zfar=12, shadowclip=1.2, fogstart=3, fogend=8)
    mjcf.add(visual, "rgba", fog=(0.90, 0.93, 0.96, 1))
    _assets(mjcf.add(root, "asset"))
    world = mjcf.add(root, "worldbody")
    mjcf.add(
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
    arm_model.add_arm(world)
    for colour in COLOURS:
        _block(world, colour)
    mjcf.camera(world, "scene", (1.40, -0.30, 0.84), (0.575, 0.0, 0.04), fovy=41.0)
    mjcf.camera(world, "overview", (1.55, -1.25, 0.95), (0.38, 0.0, 0.22), fovy=46.0)
    return ET.tostring(root, encoding="unicode")


def _assets(asset: ET.Element) -> None:
    mjcf.add(
        asset,
        "texture",
        type="skybox",
        builtin="gradient",
        rgb1=(0.93, 0.95, 0.98),
        rgb2=(0.62, 0.72, 0.84),
        width=64,
        height=384,
    )
    mjcf.add(
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
    mjcf.add(
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
        mjcf.add(asset, "material", name=name, rgba=(*colour, 1), specular=0.25, shininess=0.3)
    for name, colour in COLOURS.items():
        mjcf.add(asset, "material", name=name, rgba=(*colour, 1), specular=0.3, shininess=0.4)


def _room(world: ET.Element, belt: tuple[float, float, float] | None) -> None:
    mjcf.add(
        world,
        "geom",
        type="plane",
        pos=(0, 0, _FLOOR),
        size=(5, 5, 0.1),
        material="floor",
        contype=0,
        conaffinity=0,
    )
    mjcf.add(
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
    mjcf.add(
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
            mjcf.add(
                world,
                "geom",
                type="box",
                pos=(x, y, (_FLOOR - 0.07) / 2),
                size=(0.03, 0.03, -(_FLOOR + 0.07) / 2),
                material="edge",
                **seen,
            )
    mjcf.add(
        world,
        "geom",
        type="cylinder",
        pos=(0, 0, 0.005),
        size=(0.13, 0.005),
        material="dark",
        **seen,
    )
    mjcf.add(
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
        mjcf.add(
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
            mjcf.add(
                world,
                "geom",
                type="box",
                pos=(x + side, (low + high) / 2, 0.004),
                size=(0.006, (high - low) / 2 + 0.08, 0.004),
                material="shell",
                **seen,
            )


def _block(world: ET.Element, colour: str) -> None:
    body = mjcf.add(world, "body", name=f"{colour}_block", pos=(0.6, 0, BLOCK_HALF))
    mjcf.add(body, "freejoint", name=f"{colour}_block")
    mjcf.add(
        body,
        "geom",
        name=f"{colour}_block",
        type="box",
        size=(BLOCK_HALF,) * 3,
        material=colour,
        mass=0.2,
        friction=(0.9, 0.01, 0.001),
    )
