# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Stands between the robot's sensors and the nodes, and tampers with what it passes on; gives the
instructions that a person would. A process of its own; commands on its standard input, a JSON
object a line: {"begin": id, "kind": ..., "parameters": ...}, {"end": id}, {"say": text}.

    python -m phyai_ros.tools.soaking.bench --robot ur10e --raw /sim_raw
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String

from phyai_ros import robots
from phyai_ros.nodes import qos
from phyai_ros.nodes.participant import Participant
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.soaking.faults.instructions import storm
from phyai_ros.tools.soaking.faults.messages import Tamper
from phyai_ros.tools.soaking.faults.tampers import CLOCK, JOINTS, tamper

STORM = "instructions_storm"
STORM_PERIOD = 0.02


class Link:
    """One topic, passed on as serialised bytes. stream: as ``tamper`` calls it."""

    def __init__(self, node: Any, kind: Any, topic: str, raw: str, profile: Any, stream: str):
        self.stream = stream
        self._tamper: Tamper | None = None
        self._lock = threading.Lock()
        self._late: list[tuple[float, int, bytes]] = []
        self._number = itertools.count()
        self._publisher = node.create_publisher(kind, topic, profile)
        node.create_subscription(kind, raw, self._on_message, profile, raw=True)

    def set(self, tamper: Tamper | None) -> None:
        """From any thread."""
        with self._lock:
            self._tamper = tamper
            if tamper is None:  # as a network does that comes back: what it kept comes first
                self._flush(float("inf"))

    def flush(self) -> None:
        with self._lock:
            self._flush(time.monotonic())

    def _on_message(self, data: bytes) -> None:
        with self._lock:
            if self._tamper is None:
                self._publisher.publish(data)
                return
            now = time.monotonic()
            for due, changed in self._tamper(data, now):
                if due <= now:
                    self._publisher.publish(changed)
                else:
                    heapq.heappush(self._late, (due, next(self._number), changed))

    def _flush(self, now: float) -> None:
        while self._late and self._late[0][0] <= now:
            self._publisher.publish(heapq.heappop(self._late)[2])


class Bench:
    """Every link of a robot, and the person at the keyboard."""

    def __init__(self, node: Any, robot: Robot, raw: str, *, clock: bool) -> None:
        self._links = [
            Link(node, Image, camera.topic, raw + camera.topic, qos.camera(), role)
            for role, camera in robot.cameras.items()
        ]
        self._links += [
            Link(node, JointState, topic, raw + topic, qos.joint_states(), JOINTS)
            for topic in robot.joint_state_topics
        ]
        if clock:
            self._links.append(Link(node, Clock, "/clock", f"{raw}/clock", qos.clock(), CLOCK))
        self._instruction = node.create_publisher(String, "/instruction", qos.instruction())
        self._storm = threading.Event()
        node.create_timer(0.005, self._flush)

    def obey(self, command: dict[str, Any]) -> None:
        """One line of standard input."""
        if "say" in command:
            self._instruction.publish(String(data=command["say"]))
        elif "end" in command:
            self._storm.set()
            for link in self._links:
                link.set(None)
        elif command["kind"] == STORM:
            self._storm = threading.Event()
            thread = threading.Thread(
                target=self._rage, args=(self._storm, command["parameters"]["seed"]), daemon=True
            )
            thread.start()
        else:
            for link in self._links:
                link.set(tamper(command["kind"], command["parameters"], link.stream))

    def _rage(self, stop: threading.Event, seed: int) -> None:
        texts = storm(random.Random(seed))
        while not stop.wait(STORM_PERIOD):
            self._instruction.publish(String(data=next(texts)))

    def _flush(self) -> None:
        for link in self._links:
            link.flush()


def obey_input(obey: Callable[[dict[str, Any]], None]) -> None:
    """Until the input ends. Each command is answered with the time at which it was carried out."""
    for line in sys.stdin:
        command = json.loads(line)
        obey(command)
        print(json.dumps({"done": command, "time": time.time()}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", required=True)
    parser.add_argument("--raw", required=True, help="prefix of the robot's own sensor topics")
    parser.add_argument(
        "--clock", action="store_true", help="time is simulated: pass it on as well"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(PermissionError):
        os.nice(-10)  # a starved bench would be a fault that nobody asked for
    here = Participant("phyai_soak_bench")
    bench = Bench(here.node, robots.load(options.robot), options.raw, clock=options.clock)
    here.start()
    obey_input(bench.obey)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the executor's thread may be within the middleware
