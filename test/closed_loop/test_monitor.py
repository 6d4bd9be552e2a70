# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""sim_node, handoff_node and the monitor as they are, over real DDS; the expert is the policy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import rclpy
from PIL import Image
from rclpy.executors import SingleThreadedExecutor
from rich.console import Console
from std_msgs.msg import Float64MultiArray

from phyai_ros.nodes import outlets, qos
from phyai_ros.sim import kinematics as kin
from phyai_ros.tools import monitor

DOMAIN = 87
CAMERAS = {name: f"/camera/{name}/image_raw" for name in ("scene", "wrist")}
EXPERT = [sys.executable, str(Path(__file__).with_name("expert_policy.py"))]


def node(name, **parameters):
    command = [sys.executable, "-m", f"phyai_ros.nodes.{name}", "--ros-args"]
    for key, value in parameters.items():
        command += ["-p", f"{key}:={value}"]
    return command


@pytest.fixture
def graph(monkeypatch):
    """start(*commands) -> processes in a domain of their own; all are stopped at the end."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    processes = []

    def start(*commands):
        processes.extend(subprocess.Popen(command, env=dict(os.environ)) for command in commands)
        return processes

    yield start
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            process.wait(timeout=20)
        finally:
            process.kill()


@contextmanager
def commands_heard():
    """A function that says how many commands have been published since."""
    context = rclpy.Context()
    rclpy.init(context=context)
    listener = rclpy.create_node("listener", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(listener)
    got = []
    listener.create_subscription(
        Float64MultiArray, "/forward_position_controller/commands", got.append, qos.command()
    )

    def heard():
        executor.spin_once(timeout_sec=0)
        return len(got)

    yield heard
    executor.shutdown()
    listener.destroy_node()
    rclpy.shutdown(context=context)


def watch(tmp_path, console=None, **settings):
    what = monitor.Run(
        tmp_path,
        cameras=CAMERAS,
        ways=(outlets.forward("forward_position_controller/commands", kin.JOINTS),),
        joint_names=kin.JOINTS,
        about={"model": "expert", "robot": "ur10e"},
        **{"sim": True, "startup": 60.0, **settings},
    )
    status = monitor.run(what, console=console or Console(quiet=True))
    return status, json.loads((tmp_path / "report.json").read_text())


@pytest.mark.slow
def test_three_sampled_episodes(graph, tmp_path):
    graph(
        node("sim_node", seed=20),
        node("handoff_node", execution_horizon=8),
        [*EXPERT, "0.05"],
    )
    status, report = watch(tmp_path, duration=None, episodes=3)
    assert status == 0, report["problems"]
    assert [e["seed"] for e in report["episodes"]] == [20, 21, 22]
    assert report["success"]["count"] == 3
    assert report["ticks"]["acting"] > 50
    assert report["chunks"]["used"] >= 6
    assert report["stages"]["solver"]["p50"] >= 0.05
    assert report["stages"]["deliver"]["count"] >= 6
    assert report["action_age"]["first"] >= 0.05
    assert report["jerk"]["boundary"] is not None
    assert report["real_time_factor"]["mean"] > 0
    assert report["problems"] == []
    for name in ("timeline.png", "filmstrip.png"):
        assert np.asarray(Image.open(tmp_path / name).convert("RGB")).std() > 15


@pytest.mark.slow
def test_a_robot_is_watched_for_its_time_and_not_driven(graph, tmp_path):
    """As with a real arm: no episodes, no success; the simulator stands in for it."""
    graph(
        node("sim_node"),
        node("handoff_node", execution_horizon=8, instruction="'hover above the blue cube'"),
        [*EXPERT, "0.02"],
    )
    status, report = watch(tmp_path, sim=False, duration=3.0)
    assert status == 0, report["problems"]
    assert report["success"] is None
    assert report["episodes"] == []
    assert report["ticks"]["acting"] > 30
    assert np.asarray(Image.open(tmp_path / "filmstrip.png").convert("RGB")).std() > 15


@pytest.mark.slow
def test_without_a_policy_it_says_so_and_ends(graph, tmp_path):
    graph(node("sim_node"), node("handoff_node"))
    status, report = watch(tmp_path, startup=8.0)
    assert status == 1
    assert "no command in 8 s" in report["problems"][0]
    if "handoff_node" not in report["problems"][0]:  # on a busy machine it has not spoken by then
        status, report = watch(tmp_path, startup=60.0)
        assert status == 1
    assert "handoff_node" in report["problems"][0]
    assert report["success"] is None


@pytest.mark.slow
def test_a_stop_ends_the_run_with_a_report(graph, tmp_path):
    graph(
        node("sim_node", instruction="'reach the green block'"),
        node("handoff_node", instruction="'reach the green block'", execution_horizon=8),
        [*EXPERT, "0.02"],
    )
    what = monitor.Run(tmp_path, sim=True, duration=None, cameras=CAMERAS, startup=60.0)
    with commands_heard() as heard:
        status = monitor.run(
            what,
            stopped=lambda: "sim_node ended" if heard() >= 10 else None,
            console=Console(quiet=True),
        )
    report = json.loads((tmp_path / "report.json").read_text())
    assert status == 1
    assert report["problems"] == ["sim_node ended"]
    assert report["episodes"][0]["instruction"] == "reach the green block"


def test_alone_it_ends_after_its_patience(graph, tmp_path):
    graph()
    status, report = watch(tmp_path, startup=0.5)
    assert status == 1
    assert "no node has reported yet" in report["problems"][0]
