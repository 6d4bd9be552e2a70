# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The whole system under test: simulated robot, bench between its sensors and the nodes, the nodes
as ``phyai-ros up`` runs them, recorder, watcher."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
import uuid
from pathlib import Path
from typing import Any

from phyai_ros.nodes import graph
from phyai_ros.robots.robot import Robot
from phyai_ros.tools import shared_memory
from phyai_ros.tools.soaking import processes
from phyai_ros.tools.soaking.children import Child
from phyai_ros.tools.soaking.faults import instructions
from phyai_ros.tools.soaking.faults.disk import Disk
from phyai_ros.tools.soaking.memory import MemoryLog, own
from phyai_ros.tools.soaking.recordings import Recordings
from phyai_ros.tools.soaking.timeline import Timeline

RAW = "/sim_raw"
IMAGE = {"width": 160, "height": 120}
DISK = 768 << 20
UP_STOPS = 30.0
"""s that ``up`` may take to stop everything and write its report."""


class System:
    """out: logs and the watcher's journal. domain: ROS domain of its own. sim_time: the robot is
    the clock, and the nodes follow it."""

    def __init__(
        self,
        robot: Robot,
        name: str,
        model: str,
        seed: int,
        out: Path,
        domain: int,
        *,
        sim_time: bool = False,
    ) -> None:
        self.robot, self.sim_time = robot, sim_time
        self.timeline = Timeline()
        self.memory = MemoryLog()
        self.broken: list[str] = []
        self.disk = Disk(out / "disk", DISK)
        self._name, self._model, self._seed, self._out = name, model, seed, out
        self._run = uuid.uuid4().hex
        self.environment = {
            **os.environ,
            **{k: os.environ.get(k, v) for k, v in graph.environment({"sim": True}).items()},
            "ROS_DOMAIN_ID": str(domain),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "RCUTILS_COLORIZED_OUTPUT": "0",
            processes.MARK: self._run,
        }
        self._journal = (out / "journal.jsonl").open("w", encoding="utf-8")
        self._tasks = instructions.sensible(random.Random(seed))
        self.recordings = Recordings(
            name, self.disk.path / "bags", self.environment, out / "logs" / "record.log"
        )

    # -- start and stop ----------------------------------------------------------------------

    def start(self) -> None:
        shared_memory.sweep()
        measured = RAW + self.robot.joint_state_topics[0]
        words = ["phyai_ros.tools.soaking.watcher", "--robot", self._name, "--measured", measured]
        self.watcher = self._child("watcher", words, self._on_event)
        bench = ["phyai_ros.tools.soaking.bench", "--robot", self._name, "--raw", RAW]
        bench += ["--clock"] if self.sim_time else []
        self.bench = self._child("bench", bench, lambda line: None)
        self.start_simulator()
        self.up = self._child(
            "up",
            [
                "phyai_ros.tools",
                "up",
                f"robot:={self._name}",
                f"model:={self._model}",
                f"seed:={self._seed}",
                f"use_sim_time:={self.sim_time}".lower(),
                "threads:=1",
                f"out:={self.disk.path / 'up'}",
            ],
        )
        self.recordings.start()
        self.new_task()

    def start_simulator(self) -> None:
        topics = [camera.topic for camera in self.robot.cameras.values()]
        topics += [*self.robot.joint_state_topics, "/clock"]
        words = ["phyai_ros.nodes.sim_node", "--ros-args", "--disable-external-lib-logs"]
        for topic in topics:
            words += ["-r", f"{topic}:={RAW}{topic}"]
        parameters = {"robot": self._name, "seed": self._seed, **IMAGE}
        parameters["publish_clock"] = str(self.sim_time).lower()
        for name, value in parameters.items():
            words += ["-p", f"{name}:={value}"]
        self.simulator = self._child("sim_node", words)

    def stop(self) -> list[str]:
        """Everything, in order; what is left running although it was told to end (and is then
        killed)."""
        try:
            self._stop_told()
        finally:  # whatever failed, no process and no mount stays
            left = self._stop_rest()
        return left

    def _stop_told(self) -> None:
        if not self.up.stop(signal.SIGINT, UP_STOPS):
            self.broken.append(f"phyai-ros up did not stop within {UP_STOPS:g} s")
        elif self.up.process.returncode not in (130, 1):
            self.broken.append(f"phyai-ros up ended with status {self.up.process.returncode}")
        if self.recordings.pid is not None and not self.recordings.stop():
            self.broken.append("phyai-ros record did not stop when asked to")
        self.recordings.check()

    def _stop_rest(self) -> list[str]:
        for child in (self.simulator, self.bench, self.watcher):
            child.stop(signal.SIGTERM, 10.0)
        left = processes.marked(self._run)
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._journal.close()
        if (self.disk.path / "up").is_dir():  # the disk goes, what the nodes said stays
            shutil.copytree(self.disk.path / "up", self._out / "up", dirs_exist_ok=True)
        self.disk.close()
        shared_memory.sweep()
        return [f"{process.name} ({process.pid})" for process in left]

    # -- while it runs -----------------------------------------------------------------------

    def new_task(self) -> None:
        """So that the arm moves."""
        self.bench.tell({"say": next(self._tasks)})

    def pids(self, name: str) -> list[int]:
        return [found.pid for found in processes.marked(self._run) if found.name == name]

    def sample_memory(self) -> None:
        now = time.time()
        for found in processes.marked(self._run):
            if found.name in ("policy_node", "handoff_node", "sim_node", "up", "record"):
                kib = own(found.pid)
                if kib is not None:
                    self.memory.add(found.name, found.pid, now, kib)

    def dead(self) -> list[str]:
        """Processes without which a run makes no sense, and which nobody ended."""
        wanted = {"watcher": self.watcher, "bench": self.bench, "up": self.up}
        return [
            f"{name} ended with status {child.process.returncode}"
            for name, child in wanted.items()
            if not child.running
        ]

    def _child(self, name: str, words: list[str], on_line: Any = None) -> Child:
        return Child(words, self.environment, self._out / "logs" / f"{name}.log", on_line)

    def _on_event(self, event: dict[str, Any]) -> None:
        self.timeline.add(event)
        if not self._journal.closed:
            self._journal.write(json.dumps(event) + "\n")
