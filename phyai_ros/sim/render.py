# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Off-screen pictures of a MuJoCo scene: EGL where it works, else OSMesa.

A ``Renderer`` belongs to the thread that made it: an OpenGL context is current in one thread only.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import mujoco
import numpy as np

_BACKENDS = ("egl", "osmesa")


class RenderingError(RuntimeError):
    """No way to render without a screen; the text names what to install."""


def context(width: int, height: int) -> Any:
    """An OpenGL context for off-screen rendering.

    ``MUJOCO_GL`` (egl or osmesa) chooses; unset: EGL, then OSMesa. Raises RenderingError.
    """
    # Mesa's software renderer hands small pictures to threads of its own; waiting for those on busy
    # cores takes several times as long as drawing. The pixels are the same.
    os.environ.setdefault("LP_NUM_THREADS", "0")
    wanted = os.environ.get("MUJOCO_GL", "").strip().lower()
    if wanted and wanted not in _BACKENDS:
        raise RenderingError(
            f"MUJOCO_GL={wanted!r}: the simulator renders without a screen; choose one of "
            f"{', '.join(_BACKENDS)} or unset it"
        )
    failures = []
    for backend in (wanted,) if wanted else _BACKENDS:
        try:
            return _open(backend, width, height)
        except Exception as error:  # PyOpenGL and MuJoCo raise many kinds here
            _forget_opengl()
            failures.append(f"{backend}: {type(error).__name__}: {error}")
    raise RenderingError(
        "no off-screen OpenGL: on Debian or Ubuntu run `apt install libegl1 libgl1-mesa-dri` (EGL) "
        "or `apt install libosmesa6` (OSMesa). Tried " + "; ".join(failures)
    )


def _open(backend: str, width: int, height: int) -> Any:
    loaded = os.environ.get("PYOPENGL_PLATFORM")
    if loaded != backend:
        _forget_opengl()
        os.environ["PYOPENGL_PLATFORM"] = backend
    module = importlib.import_module(f"mujoco.{backend}")
    made = module.GLContext(width, height)
    made.make_current()
    return made


def _forget_opengl() -> None:
    """PyOpenGL binds to one platform at import: drop it, so that another can be tried."""
    os.environ.pop("PYOPENGL_PLATFORM", None)
    for name in list(sys.modules):
        if name == "OpenGL" or name.startswith(("OpenGL.", "mujoco.egl", "mujoco.osmesa")):
            del sys.modules[name]


class Renderer:
    """Renders cameras of one model at one size.

    On a software renderer ``antialias`` triples and ``shadows`` quadruples the time of a picture.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        width: int = 320,
        height: int = 240,
        *,
        shadows: bool = False,
        antialias: bool = False,
    ) -> None:
        if width < 1 or height < 1:
            raise ValueError(f"image size {width}x{height}: both must be at least 1")
        model.vis.global_.offwidth = max(int(width), int(model.vis.global_.offwidth))
        model.vis.global_.offheight = max(int(height), int(model.vis.global_.offheight))
        model.vis.quality.offsamples = 4 if antialias else 0
        self._gl = context(width, height)
        self._model = model
        self._data = mujoco.MjData(model)
        self._positions: np.ndarray | None = None
        self._scene = mujoco.MjvScene(model, maxgeom=200)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._option = mujoco.MjvOption()
        self._perturb = mujoco.MjvPerturb()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._viewport = mujoco.MjrRect(0, 0, width, height)

    def render(self, positions: np.ndarray, camera: str) -> np.ndarray:
        """The picture of ``camera`` at generalised positions ``positions`` [nq] (MuJoCo qpos).

        uint8 [height, width, 3], RGB, row 0 on top. Raises KeyError naming the cameras there are.
        """
        number = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        if number < 0:
            known = [self._model.camera(i).name for i in range(self._model.ncam)]
            raise KeyError(f"no camera {camera!r} in the scene; there are {', '.join(known)}")
        self._gl.make_current()  # another renderer of this thread may have been at work
        self._camera.fixedcamid = number
        if self._positions is None or not np.array_equal(positions, self._positions):
            self._positions = np.array(positions)
            self._data.qpos[:] = self._positions
            mujoco.mj_kinematics(self._model, self._data)
            mujoco.mj_camlight(self._model, self._data)
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._option,
            self._perturb,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        mujoco.mjr_render(self._viewport, self._scene, self._context)
        pixels = np.empty((self._viewport.height, self._viewport.width, 3), np.uint8)
        mujoco.mjr_readPixels(pixels, None, self._viewport, self._context)
        return np.ascontiguousarray(pixels[::-1])

    def close(self) -> None:
        """Frees the context; in the thread that made it."""
        if self._gl is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._gl = None
