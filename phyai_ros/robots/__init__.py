# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Robot descriptions: one YAML file a robot. See docs/architecture.md."""

from phyai_ros.robots.errors import RobotError
from phyai_ros.robots.parts import Camera, Joint, Output
from phyai_ros.robots.robot import Robot, load, names

__all__ = ["Camera", "Joint", "Output", "Robot", "RobotError", "load", "names"]
