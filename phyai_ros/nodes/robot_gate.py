# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the robot says of itself: whether it takes commands, and how fast it runs."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from std_msgs.msg import Float64

from phyai_ros.nodes import qos
from phyai_ros.nodes.diagnostics import EdgeLog, Status
from phyai_ros.nodes.streams import Stream
from phyai_ros.robots.parts import Ready
from phyai_ros.robots.robot import Robot

SAID = 1.0
"""Seconds for which somebody may be heard before the ROS graph lists them."""
STOPPED = 0.01
"""Share of full speed below which the robot counts as paused."""


class RobotGate:
    """Listens to the topics in the robot's ``ready`` and ``speed_scaling``; without these it is
    always open and at full speed. Executor thread; ``factor`` may be read from another.

    on_change: called when something was said, so that nobody has to wait for the next look.
    """

    def __init__(
        self, node: Any, robot: Robot, log: EdgeLog, on_change: Callable[[], None]
    ) -> None:
        self._on_change = on_change
        self.factor = 1.0
        """Share of full speed, from STOPPED to 1; 1 while the robot is paused or silent, for then
        the arm is held and nothing is played."""
        self.stands = False
        """Whether the robot said that it takes no commands; else it was silent, and may move."""
        self._scaling = robot.speed_scaling
        self._conditions = dict(robot.ready)
        self._values: dict[str, Any] = {}
        self._speed = math.nan
        self._gone: set[str] = set()
        self._void: set[str] = set()
        """Said by somebody who has left since, whoever has come in their place."""
        types = {
            name: message_type(ready.type, f"{robot.source}: ready.{name}.type")
            for name, ready in robot.ready.items()
        }
        self._ready_streams: dict[str, Stream] = {}
        for name, ready in robot.ready.items():
            stream = Stream(
                node,
                f"robot {name}",
                types[name],
                ready.topic,
                qos.robot_status() if ready.latched else qos.handoff_state(),
                partial(self._on_ready, name, ready.field),
                log,
            )
            self._ready_streams[name] = stream
        self._speed_stream: Stream | None = None
        if self._scaling is not None:
            self._speed_stream = Stream(
                node,
                "robot speed scaling",
                Float64,
                self._scaling.topic,
                qos.joint_states(),
                self._on_speed,
                log,
                stale_after=self._scaling.max_age,
            )
        streams = [*self._ready_streams.values(), self._speed_stream]
        self._streams = [stream for stream in streams if stream is not None]

    def _on_ready(self, name: str, field: str, message: Any) -> None:
        if not hasattr(message, field):
            known = ", ".join(message.get_fields_and_field_types())
            raise ValueError(f"{type(message).__name__} has no field '{field}'; it has: {known}")
        self._values[name] = getattr(message, field)
        self._void.discard(name)
        self._on_change()

    def _on_speed(self, message: Float64) -> None:
        if not math.isfinite(message.data):
            # Nothing is known now, least of all what was said before.
            self._speed, self.factor = math.nan, 1.0
            self._on_change()
            raise ValueError(f"speed scaling: expected a number, found {message.data}")
        assert self._scaling is not None
        self._speed = min(max(message.data / self._scaling.full, 0.0), 1.0)
        self.factor = self._speed if self._speed >= STOPPED else 1.0
        self._on_change()

    def watch(self) -> None:
        """Look whether whoever said yes is still there; now and then, for it asks the ROS graph.
        A mode is said once, so a driver that died would otherwise have said yes for ever, and for
        the one that is started in its place."""
        self._gone = {name for name, stream in self._ready_streams.items() if stream.deserted()}
        self._void |= {name for name in self._gone if self._ready_streams[name].age > SAID}

    def trouble(self) -> str | None:
        """Why no command may be sent now, for people; None when the robot takes them. ``stands``
        tells of the same moment."""
        self.stands = False
        for name, ready in self._conditions.items():
            stream = self._ready_streams[name]
            if name not in self._values:
                return f"the robot has not said whether it is ready: {stream.trouble()}"
            if name in self._gone | self._void:
                return f"whoever said that the robot is ready is gone ({stream.topic})"
            if not _means_yes(self._values[name], ready):
                self.stands = True
                wanted = " or ".join(str(v) for v in ready.values)
                return (
                    f"the robot takes no commands: {name} is {self._values[name]}, "
                    f"expected {wanted} ({stream.topic})"
                )
        if self._speed_stream is not None and self._scaling is not None:
            if math.isnan(self._speed):
                return f"the robot has not said how fast it runs: {self._speed_stream.trouble()}"
            if self._speed_stream.age > self._scaling.max_age:
                self.factor = 1.0
                return f"the robot says no more how fast it runs ({self._speed_stream.topic})"
            if self._speed < STOPPED:
                self.stands = True
                return f"the robot is paused: speed scaling is zero ({self._speed_stream.topic})"
        return None

    def statuses(self) -> list[Status]:
        return [stream.status() for stream in self._streams]

    def destroy(self) -> None:
        for stream in self._streams:
            stream.destroy()


def _means_yes(value: Any, ready: Ready) -> bool:
    # True and 1 are equal in Python; a mode of 1 must not pass for a yes that was asked as true.
    return any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in ready.values)


def message_type(name: str, where: str) -> Any:
    """package/msg/Name -> its class. Raises ValueError that says which package to install."""
    package, _, message = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), message)
    except ImportError as error:
        raise ValueError(
            f"{where}: message package '{package}' is not installed (apt: "
            f"ros-$ROS_DISTRO-{package.replace('_', '-')}): {error}"
        ) from error
    except AttributeError as error:
        raise ValueError(f"{where}: package '{package}' has no message '{message}'") from error
