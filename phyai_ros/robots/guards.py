# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The optional guards that a robot's description asks for."""

from __future__ import annotations

import math

from phyai_ros.control.stall import Closing, StallDetector
from phyai_ros.control.tracking import TrackingWatch
from phyai_ros.control.workspace import Workspace
from phyai_ros.robots.kinematics import Forward
from phyai_ros.robots.robot import Robot


def workspace(robot: Robot) -> Workspace | None:
    """The box for the guard, None when the robot has none."""
    box = robot.workspace
    if box is None:
        return None
    return Workspace(Forward(box.chain, robot.joint_names), box.lower, box.upper)


def stall_detector(robot: Robot, period: float) -> StallDetector | None:
    """For the handoff, None for a robot without grippers. period: control tick, seconds."""
    grippers, ticks, change = {}, {}, {}
    for name, joint in robot.joints.items():
        if joint.gripper is not None:
            low, high = joint.position
            closed = low if joint.gripper.closed is None else joint.gripper.closed
            quarter = 0.25 * (high - low)
            inward = quarter if closed < 0.5 * (low + high) else -quarter
            grippers[name] = Closing(closed, closed + inward)
            ticks[name] = max(1, round(joint.gripper.stall_after / period))
            change[name] = 0.02 * (high - low)
    if not grippers:
        return None
    return StallDetector(robot.joint_names, grippers, ticks, change)


def tracking_watch(robot: Robot, period: float) -> TrackingWatch | None:
    """For the handoff, None where the description says null. period: control tick, seconds."""
    tracking = robot.tracking
    if tracking is None:
        return None
    tolerance = {"rad": tracking.rad, "m": tracking.m}
    joints = robot.joints.values()
    return TrackingWatch(
        robot.joint_names,
        [math.inf if j.gripper is not None else tolerance[j.unit] for j in joints],
        lag=max(1, math.ceil(tracking.lag / period - 1e-9)),
        ticks=max(1, math.ceil(tracking.after / period - 1e-9)),
        units=[j.unit for j in joints],
    )
