# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The row of ``phyai-ros check`` about the robot: does the checkpoint bind to it?"""

from __future__ import annotations

from phyai_ros import robots
from phyai_ros.engine.types import PolicySpec
from phyai_ros.nodes import model_file
from phyai_ros.robots import config_files
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.errors import NumbersError
from phyai_ros.tools.check_rows import Row


def row(spec: PolicySpec, checkpoint: str, robot_name: str, model_name: str | None) -> Row:
    """checkpoint: as the engine took it. model_name: None looks for the model of config/models that
    puts this checkpoint on this robot; without one the checkpoint's own names must tell. A misfit
    is a failed row; a robot or model file that cannot be read raises RobotError."""
    robot = robots.load(robot_name)
    fitting = [model_name] if model_name else binding_models(checkpoint, robot.name)
    if len(fitting) > 1:
        note = f"several models bind it to {robot.name}, pass one with --model: "
        return Row("robot", robot.name, False, note=note + ", ".join(fitting))
    config, source = None, ""
    if fitting:
        model, source = model_file.load(fitting[0])
        config = model_file.robot_part(model, robot.name, source)
    try:
        binding = Binding(robot, spec, config, source=source)
    except robots.RobotError as error:
        told = fitting or isinstance(error, NumbersError)
        note = str(error) if told else _ask(robot.name, spec.family)
        return Row("robot", robot.name, False, note=note)
    note = f"cameras {', '.join(binding.cameras)}; {binding.step:g} s"
    if fitting and not model_name:
        note += f"; model {fitting[0]}"
    note += "".join(f"; to be looked at: {doubt}" for doubt in binding.doubts)
    return Row("robot", robot.name, True, note=note)


def binding_models(checkpoint: str, robot: str) -> list[str]:
    """Names of config/models whose file is about this checkpoint and this robot: what the columns
    are that a checkpoint leaves unnamed, no other file may say."""
    found = []
    for name in config_files.names("models"):
        model, source = model_file.load(name)
        every = (model_file.checkpoint_path(c, source) for c in (model.checkpoint, *model.also))
        if checkpoint in every and robot in model.robots:
            found.append(name)
    return found


def _ask(robot: str, family: str) -> str:
    names = config_files.names("models")
    akin = [name for name in names if model_file.load(name)[0].family == family]
    hint = f" ({', '.join(akin)} for its family, {family})" if akin else ""
    return (
        f"no model of config/models binds this checkpoint to {robot} and its names do not tell: "
        f"pass --model, one of {', '.join(names)}{hint} or a YAML file as "
        "phyai-ros init-robot writes it"
    )
