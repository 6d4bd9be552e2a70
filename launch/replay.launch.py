# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A policy on a recorded bag: ``ros2 launch phyai_ros replay.launch.py bag:=bags/monday``.

rosbag2 (``phyai-ros play`` where it is not installed) plays the sensors and the bag's time, the
nodes of policy.launch.py listen. What comes out depends on the machine's load; ``phyai-ros replay``
is the one that gives the same every time. Commands are made and not sent, unless dry_run:=false.
"""

import sys

from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    IncludeLaunchDescription,
    OpaqueFunction,
    SetLaunchConfiguration,
    Shutdown,
    TimerAction,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.logging import launch_config
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, ThisLaunchFileDir

from launch import LaunchDescription
from phyai_ros import robots
from phyai_ros.nodes import graph, rosbag2
from phyai_ros.replay.live_robot import as_recorded

# The bag is the robot, and its time is the time.
_FIXED = {"sim": "false", "use_sim_time": "true"}
# An arm that listens would follow what another, or it itself, once saw.
_SAFE = {"dry_run": "true"}


def generate_launch_description():
    passed = [argument for argument in graph.ARGUMENTS if argument.name not in _FIXED]
    declared = [
        DeclareLaunchArgument("bag", description="rosbag2 directory to play"),
        DeclareLaunchArgument("rate", default_value="1.0", description="times real time"),
        DeclareLaunchArgument(
            "start_delay",
            default_value="2.0",
            description="s, the bag plays so long after both nodes are active",
        ),
        *(
            DeclareLaunchArgument(
                argument.name,
                default_value=_SAFE.get(argument.name, argument.text()),
                description=argument.description if argument.closed_set() else argument.help(),
                choices=argument.closed_set(),
            )
            for argument in passed
        ),
    ]
    nodes = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(
            PathJoinSubstitution([ThisLaunchFileDir(), "policy.launch.py"])
        ),
        launch_arguments=[
            *((argument.name, LaunchConfiguration(argument.name)) for argument in passed),
            *_FIXED.items(),
        ],
    )
    bag = OpaqueFunction(function=_find)  # before anything starts
    return LaunchDescription([*declared, bag, nodes, OpaqueFunction(function=_play)])


def _find(context):
    """The nodes listen to what the bag has, be it a compressed picture for a raw one."""
    bag, robot = (LaunchConfiguration(name).perform(context) for name in ("bag", "robot"))
    return [SetLaunchConfiguration("robot", as_recorded(robot, bag, launch_config.log_dir))]


def _play(context):
    def value(name):
        return LaunchConfiguration(name).perform(context)

    def on_ready(event, context):
        if event.returncode or context.is_shutdown:
            return None
        return TimerAction(period=float(value("start_delay")), actions=[bag])

    def on_exit(event, context):
        if event.returncode and not context.is_shutdown:
            raise RuntimeError(f"the bag's player ended with status {event.returncode}")
        return Shutdown(reason="the bag has been played")

    robot = robots.load(value("robot"))
    # Commands, chunks and requests of the bag stay in it: a real arm that listens would move.
    topics = [camera.topic for camera in robot.cameras.values()]
    topics += [*robot.joint_state_topics, "/instruction"]
    command = rosbag2.own_play_command(value("bag"), value("rate"))
    if rosbag2.installed():
        command = rosbag2.play_command(value("bag"), value("rate"), topics)
    bag = ExecuteProcess(cmd=command, output="screen", on_exit=on_exit)
    waiting = [sys.executable, "-m", "phyai_ros.nodes.ready", "policy_node", "handoff_node"]
    return [ExecuteProcess(cmd=waiting, output="screen", on_exit=on_ready)]
