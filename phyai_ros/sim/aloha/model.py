# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""gym-aloha's transfer-cube scene, read from the installed package and fitted to a servo.

Only its files are used: the package is never imported, and what it depends on need not be there.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import mujoco

from phyai_ros.sim.aloha.task import CAMERAS

_SCENE_NAMES = ("top", "angle", "left_wrist", "right_wrist")
CUBE_HALF = 0.02
"""Half the edge of the cube, m."""
_PACKAGE, _FOLDER = "gym_aloha", "assets"
_SCENE = "bimanual_viperx_transfer_cube.xml"
_ARMATURE = 0.02
"""Inertia of a geared motor's rotor seen from the joint, kg m^2: the MJCF has none, and its dry
friction (30 to 60 N m) stands for a position loop that ``Servo`` replaces."""


class AssetsMissingError(ValueError):
    """gym-aloha is not installed; the text says what to do."""


def scene_file() -> Path:
    """The scene's MJCF, beside its meshes. Raises AssetsMissingError."""
    spec = importlib.util.find_spec(_PACKAGE)  # of a top-level name: finds, does not import
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        file = Path(place) / _FOLDER / _SCENE
        if file.is_file():
            return file
    raise AssetsMissingError(
        "robot:=aloha in the simulator needs the models of the Python package gym-aloha: run "
        "`pip install --no-deps gym-aloha==0.1.5` (--no-deps: only its MJCF and meshes are read)"
        + (f"; {_FOLDER}/{_SCENE} is not in {', '.join(places)}" if places else "")
    )


def load() -> mujoco.MjModel:
    """The scene, compiled: ``CAMERAS`` by their ALOHA names, no dry friction, no actuators."""
    spec = mujoco.MjSpec.from_file(str(scene_file()))
    names = dict(zip(_SCENE_NAMES, CAMERAS, strict=True))
    for camera in spec.cameras:
        camera.name = names.get(camera.name, camera.name)
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    model = spec.compile()
    for i in range(model.njnt):
        joint = model.joint(i)
        if joint.name.startswith("vx300s_"):
            (dof,) = joint.dofadr
            model.dof_frictionloss[dof] = 0.0
            model.dof_armature[dof] = _ARMATURE
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model
