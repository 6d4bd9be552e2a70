# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Listens to a system under faults and prints what it sees, a JSON object a line. A process of its
own that shares no code with the guard it checks.

    python -m phyai_ros.tools.soaking.watcher --robot ur10e --measured /sim_raw/joint_states
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import HistoryPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from phyai_ros import robots
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import qos
from phyai_ros.nodes.participant import Participant
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.soaking.limits import Bounds, CommandCheck
from phyai_ros.tools.soaking.timeline import REPEATED

_DEEP = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1000)
_COUNT_EVERY = 1.0
_KNOWN_FOR = 0.25
"""s after which a position says nothing of where the arm is now: the arm may have been started
again elsewhere, and the handoff may hear it before this process does."""


class Watcher:
    """robot: whose commands are watched. measured: where the arm itself says where it is."""

    def __init__(self, node: Any, robot: Robot, measured: str) -> None:
        self._check = CommandCheck(bounds(robot))
        self._names = robot.output_joints
        self._measured: np.ndarray | None = None
        self._heard = 0.0
        self._counts = {"commands": 0, "chunks": 0, "states": 0, "violations": 0}
        self._posed = 0.0
        self._state: tuple[int, float] = (-1, 0.0)
        self._said: dict[str, tuple[int, str]] = {}
        listen = node.create_subscription
        listen(Float64MultiArray, robot.output.topic, self._on_command, _DEEP)
        listen(HandoffState, "phyai/handoff_state", self._on_state, _DEEP)
        listen(ActionChunk, "phyai/chunk", self._on_chunk, _DEEP)
        listen(DiagnosticArray, "/diagnostics", self._on_diagnostics, _DEEP)
        listen(JointState, measured, self._on_joints, qos.joint_states())
        node.create_timer(_COUNT_EVERY, self._count)

    def _on_command(self, message: Float64MultiArray, info: dict[str, Any]) -> None:
        self._counts["commands"] += 1
        values, sent = np.asarray(message.data, dtype=np.float64), _sent(info)
        publisher = bytes(info["publisher_gid"]["data"])
        number = info["publication_sequence_number"]
        known = time.time() - self._heard < _KNOWN_FOR
        measured = self._measured if known else None
        self._tell(self._check(values, sent, publisher, number, measured), sent)

    def _tell(self, wrong: list[str], sent: float) -> None:
        for text in wrong:
            self._counts["violations"] += 1
            kind = "not_finite" if "finite" in text else "violation"
            _say(kind, sent, text=f"command: {text}")

    def _on_state(self, message: HandoffState, info: dict[str, Any]) -> None:
        self._counts["states"] += 1
        sent, fresh = _sent(info), message.deliver == message.deliver
        state, at = self._state
        if fresh or message.state != state or sent - at >= REPEATED:
            self._state = message.state, sent
            _say("state", sent, state=message.state, fresh=fresh)

    def _on_chunk(self, message: ActionChunk, info: dict[str, Any]) -> None:
        self._counts["chunks"] += 1
        if not np.isfinite(np.asarray(message.positions)).all():
            _say("not_finite", _sent(info), text=f"chunk of request {message.request_id}")

    def _on_diagnostics(self, message: DiagnosticArray, info: dict[str, Any]) -> None:
        for status in message.status:
            level = int.from_bytes(status.level, "little")
            if self._said.get(status.name) != (level, status.message):
                self._said[status.name] = level, status.message
                _say("said", _sent(info), level=level, text=f"{status.name}: {status.message}")

    def _on_joints(self, message: JointState) -> None:
        known = dict(zip(message.name, message.position, strict=False))
        self._measured = np.array([known.get(name, np.nan) for name in self._names])
        now = self._heard = time.time()
        self._tell(self._check.place(self._measured, now), now)
        if now - self._posed >= REPEATED:
            self._posed = now
            _say("pose", now, positions=self._measured.tolist())

    def _count(self) -> None:
        check = self._check
        counts = {"lost": check.lost, "firsts": check.firsts, "unplaced": check.unplaced}
        counts |= self._counts
        _say("counts", time.time(), counts=counts)


def bounds(robot: Robot) -> Bounds:
    """A robot's limits in the order of its commands, from its YAML."""
    joints = [robot.joints[name] for name in robot.output_joints]
    return Bounds(
        robot.output_joints,
        np.array([j.position[0] for j in joints]),
        np.array([j.position[1] for j in joints]),
        np.array([j.velocity for j in joints]),
        np.array([j.acceleration for j in joints]),
        np.array([j.gripper is not None for j in joints]),
        robot.period,
    )


def _sent(info: dict[str, Any]) -> float:
    return float(info["source_timestamp"]) / 1e9


def _say(event: str, time: float, **values: Any) -> None:
    print(json.dumps({"event": event, "time": time, **values}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", required=True)
    parser.add_argument("--measured", required=True, help="topic of the arm's own joint states")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(PermissionError):
        os.nice(-10)  # the judge must not be what starves
    with Participant("phyai_soak_watcher") as here, contextlib.suppress(KeyboardInterrupt):
        Watcher(here.node, robots.load(options.robot), options.measured)
        here.executor.spin()
    return 0


if __name__ == "__main__":
    sys.exit(main())
