# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An aligned moment, what may be asked of it, and why there may be none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from phyai_ros.control.words import shortened


class Reason(str, Enum):
    """Why no frame can be assembled; the value is the name shown in diagnostics."""

    NEVER_CAME = "never_came"
    TOO_OLD = "too_old"
    SKEW = "skew"
    JOINT_MISSING = "joint_missing"
    NON_FINITE = "non_finite"
    ZERO_STAMP = "zero_stamp"
    FUTURE_STAMP = "future_stamp"
    FROZEN = "frozen"
    JUMPING = "jumping"
    NOT_YET = "not_yet"


class NotReady(Exception):  # noqa: N818
    """No frame now. reason: the kind. stream: the camera or joint it is about."""

    def __init__(self, reason: Reason, stream: str, detail: str) -> None:
        self.reason = reason
        self.stream = stream
        self.detail = shortened(detail)
        super().__init__(f"{stream}: {reason.value}: {self.detail}")


@dataclass(frozen=True)
class Frame:
    """One aligned moment.

    stamp: seconds, the anchor: the newest image of the set. oldest: its oldest image.
    images: camera role -> the array given. joints: name -> position at the anchor.
    ages: camera role or joint -> seconds from its newest used sample to the assembly.
    skew: seconds between oldest and newest image. wait: seconds from the oldest image to now.
    """

    stamp: float
    oldest: float
    images: Mapping[str, np.ndarray]
    joints: Mapping[str, float]
    ages: Mapping[str, float]
    skew: float
    wait: float


@dataclass(frozen=True)
class CameraStream:
    """A camera to wait for. max_age: seconds. optional: left out of the frame when not usable."""

    name: str
    max_age: float = 0.2
    optional: bool = False
    depth: int = 8


@dataclass(frozen=True)
class AlignConfig:
    """Times in seconds.

    joint_max_age: oldest newest joint sample. max_skew: most time between two images of a set.
    joint_depth: samples kept of each joint. reorder: how far back a late message may be before it
    means that time went back. future: how far ahead of the clock a stamp may be.
    frozen_after: a camera whose pixels did not change for this long while a joint moved by
    frozen_motion (rad or m) is frozen; infinity never says so. joint_speed: of a joint, rad or m a
    second, the fastest that it can move; one whose samples contradict that several times over is
    sent by two publishers, or somebody set it elsewhere. Joints left out may do anything.
    """

    joint_max_age: float = 0.2
    max_skew: float = 0.025
    joint_depth: int = 512
    reorder: float = 0.1
    future: float = 0.05
    frozen_after: float = 0.5
    frozen_motion: float = 0.05
    joint_speed: Mapping[str, float] = field(default_factory=dict)
