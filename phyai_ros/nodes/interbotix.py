# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Commands as Interbotix's xs_sdk takes them: a group of joints, or one joint, by its own name.

The package interbotix_xs_msgs is needed only where a robot's YAML has such an output. Its messages
carry float32 (``JointGroupCommand``: string name, float32[] cmd; ``JointSingleCommand``: string
name, float32 cmd); rad in position mode, in the order of the driver's motor configuration.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phyai_ros.control.handoff import Handoff
from phyai_ros.nodes import listeners, message_types, qos
from phyai_ros.robots import wiring
from phyai_ros.robots.parts import Output


def message_class(output: Output) -> Any:
    """Raises ValueError saying what to install where the package is not there."""
    try:
        return message_types.message_class(wiring.COMMANDS[output.type])
    except ValueError as error:
        raise ValueError(
            f"output {output.topic!r} of type {output.type}: {error}; it comes with Interbotix' "
            "driver (interbotix_ros_core): build it and source its workspace before this one"
        ) from None


def fill(message: Any, name: str, values: np.ndarray) -> Any:
    """float64 [joints] into either message."""
    message.name = name
    if len(values) == 1 and not hasattr(message.cmd, "__len__"):
        message.cmd = float(values[0])
    else:
        message.cmd = array("f", values.astype(np.float32).tobytes())
    return message


def reader(output: Output) -> Callable[[Any], np.ndarray | str]:
    """Message -> float64 [joints], or why it is not for this output."""

    def read(message: Any) -> np.ndarray | str:
        if message.name != output.name:
            return f"expected the name {output.name!r}, found {message.name!r}"
        return np.atleast_1d(np.asarray(message.cmd, dtype=np.float64))

    return read


class Interbotix:
    """An output of ``outputs.OUTPUTS``: one message a tick. Raises ValueError where the messages
    are not installed."""

    def __init__(self, node: Any, output: Output, joints: Sequence[str], handoff: Handoff) -> None:
        kind = message_class(output)
        self._order = [handoff.names.index(name) for name in joints]
        self._name = output.name
        self._message = kind()
        self._node = node
        self._publisher = node.create_publisher(kind, output.topic, qos.command())
        self.topic = self._publisher.topic_name

    def publish(self, positions: np.ndarray) -> None:
        self._publisher.publish(fill(self._message, self._name, positions[self._order]))

    def let_go(self, measured: np.ndarray | None) -> bool:
        return True  # the driver holds the newest position and stores nothing

    def trouble(self) -> str | None:
        return listeners.trouble(self._node, self._publisher, "is xs_sdk running for this arm?")

    def destroy(self) -> None:
        self._node.destroy_publisher(self._publisher)
