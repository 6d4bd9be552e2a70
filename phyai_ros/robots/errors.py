# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The errors of this room."""

from __future__ import annotations


class RobotError(ValueError):
    """A robot description, or a checkpoint that does not fit it. The text says which file and key,
    what was expected and found, and what there is to choose from."""


class NumbersError(RobotError):
    """A checkpoint whose columns are known, but which speaks of them in other numbers than the
    robot's description says."""
