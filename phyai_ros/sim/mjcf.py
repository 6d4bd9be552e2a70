# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Elements of an MJCF document, written by code."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

import numpy as np


def add(parent: ET.Element, tag: str, **attributes: object) -> ET.Element:
    """A child of ``parent``; numbers and rows of numbers become MJCF's text."""
    return ET.SubElement(parent, tag, {k: _text(v) for k, v in attributes.items()})


def drum(
    body: ET.Element,
    start: Iterable[float],
    end: Iterable[float],
    radius: float,
    material: str,
    mass: float = 0.0,
) -> None:
    """A cylinder from ``start`` to ``end`` (m, in the frame of ``body``) that touches nothing."""
    add(
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


def camera(
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
    add(parent, "camera", name=name, pos=position, xyaxes=(*right, *above), fovy=fovy)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return " ".join(repr(float(v)) for v in value)
    return repr(value)
