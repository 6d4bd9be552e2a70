# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What can be set of handoff_node."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from phyai_ros.control import methods
from phyai_ros.control.config import HandoffConfig
from phyai_ros.nodes import params
from phyai_ros.nodes.params import Parameter
from phyai_ros.robots.handoff import config_of
from phyai_ros.robots.robot import Robot

LOWEST_RATE = 2.0
"""Hz. The clock's jumps are told from its ticks, and Ctrl-C stops the arm, in under a second."""

PARAMETERS = (
    params.AUTOSTART,
    Parameter("robot", "ur10e", "robot description: a name in config/robots or a YAML file"),
    Parameter("instruction", "", "the task in words, until one comes on /instruction"),
    Parameter("rate", 0.0, "control rate, Hz, from 2 on; 0: the robot's own", low=0.0, high=1000.0),
    Parameter("horizon", 0, "rows a chunk must have; 0: any", low=0, high=10_000),
    Parameter(
        "execution_horizon",
        8,
        "rows executed of a chunk before the next takes over; 0: from the measured delay",
        low=0,
        high=10_000,
    ),
    Parameter(
        "handoff",
        "replace",
        "how a new chunk joins the old one",
        choices=methods.NAMES,
    ),
    Parameter(
        "lead",
        -1,
        "ticks before a handoff at which its request goes out; -1: as long as answers take",
        low=-1,
        high=10_000,
    ),
    Parameter("margin", 1, "ticks by which a request goes out early", low=0, high=1000),
    Parameter("request_timeout", 2.0, "s, an unanswered request is repeated", low=0.05, high=600.0),
    Parameter("fault_after", 60.0, "s, starved this long: fault", low=0.1, high=86_400.0),
    Parameter("max_chunk_age", 5.0, "s, no older observation is acted on", low=0.05, high=600.0),
    Parameter(
        "ramp_speed", 0.5, "share of the velocity limits for the first move", low=0.01, high=1.0
    ),
    Parameter(
        "joint_state_max_age", 0.5, "s, older joint states start no motion", low=0.01, high=10.0
    ),
    Parameter("dry_run", False, "log commands, send none"),
    Parameter(
        "realtime_priority",
        50,  # as ros2_control's controller manager asks for
        "SCHED_FIFO priority of the control thread where the system allows it; 0: do not ask",
        low=0,
        high=99,
    ),
)


def control_rate(asked: float, robot: Robot) -> float:
    """Hz: the parameter ``rate``, or where that is 0 the robot's own. Raises ParameterError."""
    rate = asked or robot.control_rate
    if rate < LOWEST_RATE:
        where = "parameter 'rate'" if asked else f"{robot.source}: control_rate"
        raise params.ParameterError(f"{where} is {rate:g} Hz; expected at least {LOWEST_RATE:g} Hz")
    return rate


def handoff_config(values: Any, robot: Robot) -> HandoffConfig:
    """The node's parameters and the robot's description -> what the handoff is set to. Raises
    ParameterError."""
    return dataclasses.replace(
        config_of(robot, values.execution_horizon or None),
        period=1.0 / control_rate(values.rate, robot),
        horizon=values.horizon or None,
        lead=None if values.lead < 0 else values.lead,
        margin=values.margin,
        request_timeout=values.request_timeout,
        fault_after=values.fault_after,
        max_chunk_age=values.max_chunk_age,
        ramp_speed=values.ramp_speed,
        # Epochs of a restarted handoff never meet those of the one before.
        first_epoch=time.time_ns() // 1_000_000,
    )
