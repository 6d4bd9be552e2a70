# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A policy on a recorded bag: ``ros2 launch phyai_ros replay.launch.py bag:=bags/monday``.

rosbag2 plays the sensors and the bag's time, the nodes of policy.launch.py listen. What comes out
depends on the machine's load; ``phyai-ros replay`` is the one that gives the same every time.
"""

from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    IncludeLaunchDescription,
    OpaqueFunction,
    Shutdown,
    TimerAction,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, ThisLaunchFileDir

from launch import LaunchDescription
from phyai_ros import robots
from phyai_ros.nodes import graph
from phyai_ros.nodes.rosbag2 import play_command

# The bag is the robot, and its time is the time.
_FIXED = {"sim": "false", "use_sim_time": "true"}


def generate_launch_description():
    passed = [argument for argument in graph.ARGUMENTS if argument.name not in _FIXED]
    declared = [
        DeclareLaunchArgument("bag", description="rosbag2 directory to play"),
        DeclareLaunchArgument("rate", default_value="1.0", description="times real time"),
        DeclareLaunchArgument(
            "start_delay",
            default_value="15.0",
            description="s, the policy loads and the nodes find each other before the bag plays",
        ),
        *(
            DeclareLaunchArgument(
                argument.name,
                default_value=argument.text(),
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
    return LaunchDescription([*declared, nodes, OpaqueFunction(function=_play)])


def _play(context):
    def value(name):
        return LaunchConfiguration(name).perform(context)

    robot = robots.load(value("robot"))
    # Commands, chunks and requests of the bag stay in it: a real arm that listens would move.
    topics = [camera.topic for camera in robot.cameras.values()]
    topics += [*robot.joint_state_topics, "/instruction"]
    bag = ExecuteProcess(
        cmd=play_command(value("bag"), value("rate"), topics),
        output="screen",
        on_exit=Shutdown(reason="the bag has been played"),
    )
    return [TimerAction(period=float(value("start_delay")), actions=[bag])]
