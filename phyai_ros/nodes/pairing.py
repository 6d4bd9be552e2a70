# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether the model and the robot of a launch go together, before any process starts. No rclpy.

The check is the one that policy_node makes at configure; here the weights stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from phyai_ros import robots
from phyai_ros.engine import embedded
from phyai_ros.nodes import model_file
from phyai_ros.nodes.arguments import ArgumentError, Value
from phyai_ros.nodes.model_file import Choice
from phyai_ros.robots import config_files
from phyai_ros.robots.robot import Robot


def check(values: Mapping[str, Value]) -> None:
    """Raises ArgumentError for a checkpoint that cannot be used or does not fit the robot; values:
    of ``graph.ARGUMENTS``. Pairs that come with the package are not looked at again (a test holds
    them), nor is a checkpoint that only a hub has: policy_node says what is wrong with those."""
    model, robot_name = str(values["model"]), str(values["robot"])
    if (model, robot_name) in packaged() and not (values["checkpoint"] or values["embodiment"]):
        return
    try:
        robot = robots.load(robot_name)
        given = (str(values[name]) for name in ("checkpoint", "embodiment"))
        why = misfit(robot, model_file.choose(model, robot.name, *given))
    except robots.RobotError as error:
        raise ArgumentError(str(error)) from error
    if why:
        raise ArgumentError(f"model:={model} and robot:={robot_name} do not go together\n{why}")


def misfit(robot: Robot, chosen: Choice) -> str:
    """What the checkpoint wants and the robot gives, one a line, where they do not fit; empty where
    they do. Raises ArgumentError for a checkpoint that cannot be used at all."""
    # torch takes a second to import: packaged pairs start without it.
    import torch

    from phyai_ros.engine import hub, registry
    from phyai_ros.engine.checkpoint import Checkpoint
    from phyai_ros.engine.types import OtherFamilyError, PolicyError
    from phyai_ros.robots.binding import Binding, other_name
    from phyai_ros.robots.errors import NumbersError

    name = chosen.checkpoint
    here = Path(name).expanduser().is_dir() or embedded.find(name) is not None
    if not here and hub.is_id(name.partition("@")[0]):
        return ""  # its download is policy_node's, with a progress bar
    wanted = None
    try:
        wanted = None if chosen.family is None else registry.resolve(chosen.family)
        checkpoint = Checkpoint(hub.resolve(name))
        spec = registry.build(
            registry.settle(checkpoint, wanted),
            checkpoint,
            embodiment=chosen.embodiment,
            device=torch.device("meta"),  # allocates nothing
            dtype=torch.float32,
        ).spec
    except OtherFamilyError as error:
        text = other_family(str(chosen.family), chosen.source, name, error.found)
        raise ArgumentError(text) from error
    except PolicyError as error:
        unknown = chosen.family is not None and wanted is None
        where = f"{chosen.source}: family: " if unknown else ""
        raise ArgumentError(f"{where}{error}") from error
    try:
        Binding(robot, spec, chosen.part, source=chosen.source)
    except NumbersError as error:
        return str(error)
    except robots.RobotError as error:
        wrong = str(error)
    else:
        return ""
    lines = [
        f"  {spec.checkpoint} ({chosen.source}) wants cameras {_list(spec.cameras)}; "
        f"{spec.state_dim} columns of state; {spec.action_dim} of action: "
        f"{_list(spec.action_names)}",
        f"  {robot.source} gives cameras {_list(robot.cameras)}; {len(robot.joints)} joints: "
        f"{_list(robot.joints)}",
    ]
    if chosen.part.model_fields_set:  # a model's YAML that means to fit: where it does not
        lines += [f"  {line}" for line in wrong.splitlines()]
    elif chosen.part.instead and not _comes_with_the_package(chosen.source):
        lines.append(f"  {other_name(robot, chosen.part, chosen.source)}")
    pairs = ", ".join(f"model:={model} robot:={name}" for model, name in packaged())
    lines.append(f"  these do: {pairs}")
    lines.append(f"  another pair: phyai-ros init-robot --checkpoint {name} writes what it needs")
    return "\n".join(lines)


def other_family(named: str, source: str, checkpoint: str, found: str) -> str:
    """What is said of a model's YAML, at ``source``, whose family is not the checkpoint's."""
    return (
        f"{source}: family: {named}, but {checkpoint} says in its config.json that it is {found}; "
        f"the models of that family: {_list(_of_family(found))}"
    )


def packaged() -> tuple[tuple[str, str], ...]:
    """(model, robot) names of the files that come with the package and fit each other, with the
    checkpoint that comes with it, too."""
    robot_of = {robots.load(name).name: name for name in reversed(config_files.names("robots"))}
    found = []
    for name in config_files.names("models"):
        model, source = model_file.load(name)
        own = Path(model_file.checkpoint_path(model.checkpoint, source))
        if own.is_dir():
            found += [(name, robot_of[robot]) for robot in model.robots if robot in robot_of]
    return tuple(found)


def _comes_with_the_package(source: str) -> bool:
    return Path(source).parent.parent in config_files.config_dirs()


def _of_family(family: str) -> list[str]:
    names = config_files.names("models")
    return [name for name in names if model_file.load(name)[0].family == family]


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
