# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros up`` as a user runs it: a process of its own, watched from outside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from phyai_ros import robots
from phyai_ros.msg import HandoffState
from phyai_ros.nodes import qos
from phyai_ros.tools.soaking.limits import CommandCheck
from phyai_ros.tools.soaking.watcher import bounds

PATIENCE = 90.0


class Up:
    """A running ``phyai-ros up``. words: its arguments. domain: ROS domain of its own."""

    def __init__(self, run_dir, domain, *words):
        self.run_dir = Path(run_dir)
        environment = dict(os.environ, ROS_DOMAIN_ID=str(domain))
        self.output = self.run_dir.parent / "output.txt"
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "phyai_ros.tools", "up", f"out:={run_dir}", *words],
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.nodes().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def text(self):
        return self.output.read_text(errors="replace")

    def log(self, name):
        file = self.run_dir / "logs" / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def report(self):
        return json.loads((self.run_dir / "report.json").read_text())

    def nodes(self):
        """Process ids of its nodes that run, by name; found by what they were started with."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if f"{self.run_dir}/logs/" in " ".join(words) and "-m" in words:
                    name = words[words.index("-m") + 1].removeprefix("phyai_ros.nodes.")
                    if name.endswith("_node"):
                        found[name] = int(folder.name)
        return found

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what} never came\n{self.text()}"
            time.sleep(0.05)

    def finish(self):
        """Its exit status; nothing of it is left running."""
        status = self.process.wait(PATIENCE)
        assert self.nodes() == {}, "a node outlived up"
        return status


class Watcher:
    """Hears /phyai/handoff_state and the UR10e's commands in the run's domain. wrong: what is wrong
    with the commands, by an arithmetic that shares nothing with the guard's."""

    def __init__(self, domain):
        self.states, self.commands, self.wrong = [], [], []
        self._check = CommandCheck(bounds(robots.load("ur10e")))
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = rclpy.create_node("watcher", context=self._context)
        self._node.create_subscription(
            HandoffState, "phyai/handoff_state", self.states.append, qos.handoff_state()
        )
        topic = "/forward_position_controller/commands"
        self._node.create_subscription(Float64MultiArray, topic, self._on_command, 1000)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)

    def _on_command(self, message, info):
        self.commands.append(np.array(message.data))
        sent = info["source_timestamp"] / 1e9
        number = info["publication_sequence_number"]
        sender = bytes(info["publisher_gid"]["data"])
        self.wrong += self._check(self.commands[-1], sent, sender, number, None)

    def moving(self):
        """rad/s of the fastest joint, by the two newest commands."""
        period = robots.load("ur10e").period
        return np.abs(np.diff(self.commands[-2:], axis=0)).max(initial=0.0) / period

    def hear_the_rest(self):
        """What was on its way when the run ended."""
        heard = -1
        while heard != len(self.commands):
            heard, end = len(self.commands), time.monotonic() + 0.3
            while time.monotonic() < end:
                self._executor.spin_once(timeout_sec=0.05)

    def wait_for(self, up, condition, what):
        end = time.monotonic() + PATIENCE
        while not (self.states and condition(self.states[-1])):
            assert time.monotonic() < end, f"{what} never came; {self.states[-1:]}\n{up.text()}"
            assert up.process.poll() is None, up.text()
            self._executor.spin_once(timeout_sec=0.1)

    def wait_until_executing(self, up):
        self.states.clear()
        self.wait_for(up, lambda s: s.state == HandoffState.EXECUTING, "a commanded arm")

    def call(self, up, service):
        """A Trigger service; it has to say yes."""
        client = self._node.create_client(Trigger, service)
        self.wait_for(up, lambda s: client.service_is_ready(), service)
        future = client.call_async(Trigger.Request())
        self.wait_for(up, lambda s: future.done(), f"an answer of {service}")
        assert future.result().success, future.result().message

    def close(self):
        self._node.destroy_node()
        self._context.try_shutdown()
