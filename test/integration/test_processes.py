# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Simulator, policy and handoff in three processes over real DDS: the normal path, and what is left
when one of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState

from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import qos
from phyai_ros.nodes.executor_thread import ExecutorThread

DOMAIN = 34
PATIENCE = 60.0
TASK = "instruction:=reach the red block"


def start(node: str, *parameters: str) -> subprocess.Popen:
    arguments = [part for parameter in parameters for part in ("-p", parameter)]
    environment = {**os.environ, "ROS_DOMAIN_ID": str(DOMAIN), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"phyai_ros.nodes.{node}", "--ros-args", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Graph:
    """The three processes, and what they publish."""

    def __init__(self) -> None:
        self.processes = {
            "sim_node": start("sim_node", TASK, "width:=160", "height:=120"),
            "policy_node": start("policy_node"),
            "handoff_node": start("handoff_node", TASK),
        }
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=DOMAIN)
        self.node = rclpy.create_node("watcher", context=self.context)
        self.state = HandoffState(reason="nothing yet")
        self.chunks: list[ActionChunk] = []
        self.joints: list[JointState] = []
        self.diagnostics: dict[str, str] = {}
        listen = self.node.create_subscription
        listen(HandoffState, "phyai/handoff_state", self._on_state, qos.handoff_state())
        listen(ActionChunk, "phyai/chunk", self.chunks.append, qos.chunk())
        listen(JointState, "/joint_states", self.joints.append, qos.joint_states())
        listen(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.diagnostics())
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self.node)
        self._spinning = ExecutorThread(executor, "spin watcher")

    def _on_state(self, message: HandoffState) -> None:
        self.state = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.diagnostics[status.name] = status.message

    def until(self, condition, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, (
                f"never came: {what}; handoff {self.state.state} {self.state.reason}; "
                f"{self.diagnostics}"
            )
            time.sleep(0.05)

    def until_state(self, state: int, reason: str = "") -> None:
        self.until(
            lambda: self.state.state == state and reason in self.state.reason, f"{state} {reason}"
        )

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._spinning.stop()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture(scope="module")
def graph():
    graph = Graph()
    yield graph
    graph.close()


def test_the_arm_moves_on_chunks_of_the_policy(graph):
    graph.until_state(HandoffState.EXECUTING)
    start = np.array(graph.joints[-1].position)
    graph.until(
        lambda: np.abs(np.array(graph.joints[-1].position) - start).max() > 0.2, "the arm moved"
    )
    graph.until(lambda: graph.chunks, "a chunk")
    assert graph.chunks[-1].instruction == "reach the red block"
    assert graph.state.dropped_chunks == 0


def test_the_policy_is_killed_and_returns(graph):
    graph.until_state(HandoffState.EXECUTING)
    graph.processes["policy_node"].kill()
    graph.until_state(HandoffState.HOLDING, "requests are unanswered")
    assert graph.processes["handoff_node"].poll() is None
    graph.processes["policy_node"] = start("policy_node")
    graph.until_state(HandoffState.EXECUTING)


def test_the_handoff_is_killed_and_returns(graph):
    graph.until_state(HandoffState.EXECUTING)
    graph.processes["handoff_node"].kill()
    graph.processes["handoff_node"].wait()
    graph.state = HandoffState(reason="nothing from the new one yet")
    graph.processes["handoff_node"] = start("handoff_node", TASK)
    graph.until_state(HandoffState.EXECUTING)
    assert graph.processes["policy_node"].poll() is None


def test_the_robot_is_killed_and_returns_elsewhere(graph):
    graph.until_state(HandoffState.EXECUTING)
    graph.processes["sim_node"].kill()
    graph.until_state(HandoffState.HOLDING, "ran out")
    graph.until(
        lambda: "too_old" in graph.diagnostics.get("policy_node: inference", ""), "the reason"
    )
    graph.processes["sim_node"] = start("sim_node", TASK, "seed:=5", "width:=160", "height:=120")
    graph.until_state(HandoffState.EXECUTING)
    assert graph.processes["policy_node"].poll() is None
    assert graph.processes["handoff_node"].poll() is None


@pytest.mark.parametrize(
    ("node", "number"), [("policy_node", signal.SIGINT), ("handoff_node", signal.SIGTERM)]
)
def test_told_to_stop_they_stop_and_say_nothing_bad(graph, node, number):
    process = graph.processes[node]
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert "FATAL" not in output


@pytest.mark.parametrize(
    ("node", "parameter", "says"),
    [
        ("handoff_node", "robot:=ur9e", "robot 'ur9e' is unknown: expected one of ["),
        ("handoff_node", "rate:=5000", "parameter 'rate' is 5000"),
        ("handoff_node", "rate:=fast", "'rate' is 'fast'; allowed: float from 0 to 1000"),
    ],
)
def test_a_start_that_cannot_work_ends_with_the_reason(node, parameter, says):
    process = start(node, parameter)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, output
    assert says in output
    assert "Traceback" not in output
