# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A robot's handoff, as its description has it: one way for the live node and for a replay."""

from __future__ import annotations

from phyai_ros.control import methods
from phyai_ros.control.config import HandoffConfig
from phyai_ros.control.handoff import Handoff
from phyai_ros.robots import guards
from phyai_ros.robots.parts import Tracking
from phyai_ros.robots.robot import Robot

MOVED = 0.5
"""Share of the tracking tolerance: a standing arm is nearer to its command than a moving one."""


def config_of(robot: Robot, execution_horizon: int | None) -> HandoffConfig:
    """What the description decides; ``dataclasses.replace`` what a user or a bag does.
    execution_horizon: as HandoffConfig has it."""
    # A gripper's own controller, whichever the YAML names first, says nothing of the arm.
    arm = {
        output.type
        for output, joints in robot.outputs
        if not set(joints) <= set(robot.discrete_joints)
    }
    tracking = robot.tracking or Tracking()
    moved = {"rad": MOVED * tracking.rad, "m": MOVED * tracking.m}
    return HandoffConfig(
        execution_horizon=execution_horizon,
        period=robot.period,
        plays_on=arm == {"joint_trajectory"},
        discrete=robot.discrete_joints,
        tracking_tolerance=tuple(moved[joint.unit] for joint in robot.joints.values()),
    )


def make_handoff(robot: Robot, config: HandoffConfig, method: str, *, live: bool) -> Handoff:
    """method: one of ``methods.NAMES``. live: the arm gets these commands, so that it can be
    watched whether it follows; in a dry run or a replay it does not."""
    return Handoff(
        robot.limits(),
        config,
        methods.make(method),
        workspace=guards.workspace(robot),
        stall=guards.stall_detector(robot, config.period),
        tracking=guards.tracking_watch(robot, config.period) if live else None,
    )
