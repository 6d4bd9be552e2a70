# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How a command reaches the robot: one class an output, by name in ``OUTPUTS``."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from std_msgs.msg import Float64MultiArray

from phyai_ros.control.handoff import Handoff
from phyai_ros.nodes import listeners, qos
from phyai_ros.nodes.dry_run import DryRun
from phyai_ros.nodes.interbotix import Interbotix
from phyai_ros.nodes.joint_trajectory import JointTrajectoryOutput
from phyai_ros.robots.parts import Output as OutputDescription
from phyai_ros.robots.robot import Robot


class Output(Protocol):
    """Built with (node, output, joints, handoff). output: its part of the robot's YAML. joints: the
    controller's own order. handoff: its
    ``names`` are the order in which ``publish`` gets positions. Raises ValueError for joints that
    no chunk moves."""

    topic: str

    def publish(self, positions: np.ndarray) -> None:
        """positions: float64 [joints], robot units, in the handoff's joint order. Called from the
        control thread right after the handoff's tick."""
        ...

    def let_go(self, measured: np.ndarray | None) -> bool:
        """The robot takes no commands now. measured: where it is, as in ``publish``, if known.
        What a controller may still hold in store must not move it later. False where that has to
        be done again, with a position that is known. Control thread."""
        ...

    def trouble(self) -> str | None:
        """Why commands do not arrive, for people; None if they do."""
        ...

    def destroy(self) -> None: ...


class ForwardCommand:
    """std_msgs/Float64MultiArray a tick, for ros2_controllers' forward_command_controller."""

    def __init__(
        self, node: Any, output: OutputDescription, joints: Sequence[str], handoff: Handoff
    ) -> None:
        self._order = [handoff.names.index(name) for name in joints]
        self._message = Float64MultiArray()
        self._node = node
        self._publisher = node.create_publisher(Float64MultiArray, output.topic, qos.command())
        self.topic = self._publisher.topic_name

    def publish(self, positions: np.ndarray) -> None:
        self._message.data = array("d", positions[self._order].tobytes())
        self._publisher.publish(self._message)

    def let_go(self, measured: np.ndarray | None) -> bool:
        return True  # a forward controller stores nothing

    def trouble(self) -> str | None:
        return listeners.trouble(self._node, self._publisher, "is the robot's controller active?")

    def destroy(self) -> None:
        self._node.destroy_publisher(self._publisher)


class Several:
    """Outputs that share the joints between them."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs = tuple(outputs)
        self.topic = ", ".join(output.topic for output in outputs)

    def publish(self, positions: np.ndarray) -> None:
        for output in self._outputs:
            output.publish(positions)

    def let_go(self, measured: np.ndarray | None) -> bool:
        done = [output.let_go(measured) for output in self._outputs]
        return all(done)

    def trouble(self) -> str | None:
        found = [output.trouble() for output in self._outputs]
        return "; ".join(text for text in found if text) or None

    def destroy(self) -> None:
        for output in self._outputs:
            output.destroy()


OUTPUTS: dict[str, Callable[..., Output]] = {
    "forward_command": ForwardCommand,
    "joint_trajectory": JointTrajectoryOutput,
    "joint_group": Interbotix,
    "joint_single": Interbotix,
}


def make(node: Any, robot: Robot, handoff: Handoff, *, dry_run: bool = False) -> Output:
    """Every output of a robot description, as one. dry_run: outputs that only log. Raises
    ValueError that lists the kinds there are."""
    made: list[Output] = []
    try:
        for output, joints in robot.outputs:
            made.append(_make_one(node, output, joints, handoff, dry_run=dry_run))
    except ValueError:
        Several(made).destroy()
        raise
    return made[0] if len(made) == 1 else Several(made)


def _make_one(
    node: Any,
    output: OutputDescription,
    joints: Sequence[str],
    handoff: Handoff,
    *,
    dry_run: bool,
) -> Output:
    if output.type not in OUTPUTS:
        raise ValueError(
            f"output type '{output.type}' is not available; there are: {', '.join(sorted(OUTPUTS))}"
        )
    absent = [name for name in joints if name not in handoff.names]
    if absent:
        raise ValueError(
            f"output '{output.topic}' commands joints that no chunk moves: {', '.join(absent)}; "
            f"there are: {', '.join(handoff.names)}"
        )
    kind = DryRun if dry_run else OUTPUTS[output.type]
    return kind(node, output, joints, handoff)
