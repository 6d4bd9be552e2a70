# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether the model and the robot of a launch go together, before any process starts. No rclpy.

The check is the one that policy_node makes at configure; here the weights stay on disk.
"""

from __future__ import annotations

import contextlib
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
    from phyai_ros.engine.types import FamilyError, PolicyError
    from phyai_ros.robots.binding import Binding, other_name
    from phyai_ros.robots.errors import NumbersError

    name = chosen.checkpoint
    here = Path(name).expanduser().is_dir() or embedded.find(name) is not None
    if not here and hub.is_id(name.partition("@")[0]):
        return ""  # its download is policy_node's, with a progress bar
    told = wanted = None
    try:
        wanted = chosen.family and registry.resolve(chosen.family)
        checkpoint = Checkpoint(hub.resolve(name))
        with contextlib.suppress(FamilyError):
            told = registry.detect(checkpoint)
        spec = registry.build(
            wanted or registry.detect(checkpoint),
            checkpoint,
            embodiment=chosen.embodiment,
            device=torch.device("meta"),  # allocates nothing
            dtype=torch.float32,
        ).spec
    except PolicyError as error:
        text = str(error)
        if chosen.family and not wanted:
            text = f"{chosen.source}: family: {text}"
        elif told and wanted and told != wanted:
            text = (
                f"{chosen.source}: family: {chosen.family}, but {name} says in its config.json "
                f"that it is {told}; the models of that family: {_list(_of_family(told))}"
            )
        raise ArgumentError(text) from error
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
