# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What commands the simulated robot takes: one subscription an output of the robot's YAML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from std_msgs.msg import Float64MultiArray

from phyai_ros.nodes import interbotix, qos
from phyai_ros.nodes.diagnostics import Reasons
from phyai_ros.robots.parts import Output
from phyai_ros.robots.robot import Robot

Goals = dict[str, float]


class SimInputs:
    """take: called on the executor's thread with joint goals by name, robot units; outputs of type
    joint_trajectory are not listened to here. joints: of the simulated robot; ``order`` in place of
    the YAML's order of the first output, or empty. Raises ValueError for joints that the simulator
    lacks, and for messages that are not installed."""

    def __init__(
        self,
        node: Any,
        robot: Robot,
        joints: Sequence[str],
        order: Sequence[str],
        take: Callable[[Goals], None],
    ) -> None:
        self.bad = Reasons()
        self._node, self._take = node, take
        self._subscriptions: list[Any] = []
        unlike = [name for _, names in robot.outputs for name in names if name not in joints]
        if unlike or len(robot.joints) != len(joints):
            raise ValueError(
                f"{robot.source}: joints of its output: the simulator has {', '.join(joints)}, "
                f"found {', '.join(name for _, names in robot.outputs for name in names)}"
            )
        for i, (output, names) in enumerate(robot.outputs):
            if output.type != "joint_trajectory":
                listened = tuple(order) if order and i == 0 else names
                self._subscriptions.append(self._listen(output, listened))

    def _listen(self, output: Output, names: Sequence[str]) -> Any:
        topic = output.topic
        read: Callable[[Any], np.ndarray | str]
        if output.type == "forward_command":
            kind, read = Float64MultiArray, _values
        else:
            kind = interbotix.message_class(output)
            read = interbotix.reader(output)

        def heard(message: Any) -> None:
            self._on_command(topic, names, read(message))

        return self._node.create_subscription(kind, topic, heard, qos.command())

    def _on_command(self, topic: str, names: Sequence[str], found: np.ndarray | str) -> None:
        log = self._node.get_logger()  # which holds back by the line that calls it
        if isinstance(found, str):
            self.bad.add("wrong name")
            log.warning(f"command refused: {topic}: {found}", throttle_duration_sec=1.0)
        elif len(found) != len(names):
            self.bad.add("wrong length")
            log.warning(
                f"command refused: {len(found)} values, expected {len(names)}: {', '.join(names)}",
                throttle_duration_sec=1.0,
            )
        elif not np.isfinite(found).all():
            self.bad.add("not finite")
            bad = [n for n, v in zip(names, found, strict=True) if not np.isfinite(v)]
            log.warning(f"command refused: not finite: {', '.join(bad)}", throttle_duration_sec=1.0)
        else:
            self._take(dict(zip(names, found.tolist(), strict=True)))

    def destroy(self) -> None:
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())


def _values(message: Float64MultiArray) -> np.ndarray:
    return np.asarray(message.data, dtype=np.float64)
