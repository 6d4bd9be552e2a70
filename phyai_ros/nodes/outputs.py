# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How a command reaches the robot: one class an output, by name in ``OUTPUTS``."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from std_msgs.msg import Float64MultiArray

from phyai_ros.nodes import qos


class Output(Protocol):
    topic: str

    def publish(self, positions: np.ndarray) -> None:
        """positions: float64 [joints], robot units, in the handoff's joint order."""
        ...

    def subscribers(self) -> int: ...

    def destroy(self) -> None: ...


class ForwardCommand:
    """std_msgs/Float64MultiArray a tick, for ros2_controllers' forward_command_controller.

    joints: the controller's own order (its ``joints`` parameter). handoff_joints: the order in
    which ``publish`` gets its positions.
    """

    def __init__(
        self, node: Any, topic: str, joints: Sequence[str], handoff_joints: Sequence[str]
    ) -> None:
        absent = [name for name in joints if name not in handoff_joints]
        if absent:
            raise ValueError(
                f"output '{topic}' commands joints that no chunk moves: {', '.join(absent)}; "
                f"there are: {', '.join(handoff_joints)}"
            )
        self._order = [list(handoff_joints).index(name) for name in joints]
        self._message = Float64MultiArray()
        self._node = node
        self._publisher = node.create_publisher(Float64MultiArray, topic, qos.command())
        self.topic = self._publisher.topic_name

    def publish(self, positions: np.ndarray) -> None:
        self._message.data = array("d", positions[self._order].tobytes())
        self._publisher.publish(self._message)

    def subscribers(self) -> int:
        return int(self._publisher.get_subscription_count())

    def destroy(self) -> None:
        self._node.destroy_publisher(self._publisher)


OUTPUTS: dict[str, Callable[..., Output]] = {"forward_command": ForwardCommand}


def make(node: Any, kind: str, topic: str, joints: Sequence[str], order: Sequence[str]) -> Output:
    """The output of a robot description. joints: the controller's order; order: the handoff's.
    Raises ValueError that lists the kinds there are."""
    if kind not in OUTPUTS:
        raise ValueError(
            f"output type '{kind}' is not available; there are: {', '.join(sorted(OUTPUTS))}"
        )
    return OUTPUTS[kind](node, topic, joints, order)
