# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""sim_node's parameters."""

from __future__ import annotations

from rcl_interfaces.msg import ParameterDescriptor, ParameterType

from phyai_ros.nodes import params, sim_driver
from phyai_ros.nodes.params import Parameter
from phyai_ros.sim import cells, task
from phyai_ros.sim.conveyor import MAX_SPEED

SAMPLED = "sampled"
"""As an instruction: each episode draws its own."""

PARAMETERS = (
    params.AUTOSTART,
    Parameter("robot", "ur10e", "robot description: a name in config/robots or a YAML file"),
    Parameter("task", "reach", "what the episodes are about", choices=cells.TASKS),
    Parameter("seed", 0, "seed of the first episode; each next one adds 1", low=0, high=2**31),
    Parameter(
        "instruction",
        SAMPLED,
        "the task in words, for every episode; 'sampled' or empty: each episode draws its own",
    ),
    Parameter(
        "tell_instruction",
        False,
        "publish each episode's task on /instruction, where nobody else knows what was drawn",
    ),
    Parameter("width", 320, "image width, pixels", low=16, high=1920),
    Parameter("height", 240, "image height, pixels", low=16, high=1080),
    Parameter("camera_rate", 20.0, "images a second and camera", low=0.5, high=120.0),
    Parameter("joint_rate", 100.0, "joint states a second", low=1.0, high=200.0),
    Parameter("shadows", False, "render shadows (slow without a GPU)"),
    Parameter("antialias", False, "smooth edges (slow without a GPU)"),
    Parameter(
        "speed", 1.0, "simulated seconds a second; not 1: set publish_clock", low=0.05, high=20.0
    ),
    Parameter("publish_clock", False, "publish /clock and stamp with simulated time"),
    Parameter("time_limit", task.TIME_LIMIT, "s, an episode's time", low=0.5, high=600.0),
    Parameter(
        "start_tolerance",
        0.2,
        "rad, farther from the arm the first command of an episode is refused",
        low=0.01,
        high=10.0,
    ),
    Parameter(
        "conveyor_speed", 0.0, "m/s of the target block; 0: it lies still", low=0.0, high=MAX_SPEED
    ),
    Parameter("conveyor_reversing", False, "the conveyor turns round at random"),
    *sim_driver.PARAMETERS,
)
JOINTS = ParameterDescriptor(
    name="joints",
    type=ParameterType.PARAMETER_STRING_ARRAY,
    description="order of the values in a command of the robot's first output, in place of the "
    "YAML's; left out or empty: as the YAML has it",
    read_only=True,
)
