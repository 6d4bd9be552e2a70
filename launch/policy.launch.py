# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Run a policy on a robot: ``ros2 launch phyai_ros policy.launch.py model:=gr00t sim:=true``.

Arguments and nodes come from ``phyai_ros.nodes.graph``, which ``phyai-ros up`` reads too.
"""

import os

from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, TimerAction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchDescription
from phyai_ros.nodes import graph, pairing
from phyai_ros.nodes.restarts import OPTIONAL, Restarts


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.text(),
            description=argument.description if argument.closed_set() else argument.help(),
            choices=argument.closed_set(),
        )
        for argument in graph.ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_nodes)])


def _nodes(context):
    given = {a.name: LaunchConfiguration(a.name).perform(context) for a in graph.ARGUMENTS}
    values = graph.parse(given)
    pairing.check(values)
    # Set before any process starts; what the user's environment has set already, it keeps.
    shared = graph.environment(values)
    restarts = Restarts()
    return [_node(spec, shared, restarts) for spec in graph.nodes(values)]


def _node(spec, shared, restarts):
    """One node; when it ends, it comes back or takes the launch down, as ``restarts`` says."""

    def on_exit(event, context):
        if context.is_shutdown:
            return None
        delay = restarts.after(spec.executable, event.returncode)
        if delay is None and spec.executable in OPTIONAL:
            return LogInfo(msg=f"{spec.name} stays away, the launch goes on")
        if delay is None:
            # Unlike a Shutdown action, which would end `ros2 launch` with status 0.
            raise RuntimeError(f"{spec.name} ended with status {event.returncode}")
        return TimerAction(period=delay, actions=[_node(spec, shared, restarts)])

    wanted = {**shared, **spec.environment}
    return Node(
        package="phyai_ros",
        executable=spec.executable,
        name=spec.name,
        output="screen",
        emulate_tty=True,
        parameters=[{name: _typed(value) for name, value in spec.parameters.items()}],
        additional_env={name: text for name, text in wanted.items() if name not in os.environ},
        on_exit=on_exit,
    )


def _typed(value):
    # A plain string would be read as YAML: an instruction "no" would become false.
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value
