# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""sim_node in a process of its own, over real DDS; the expert closes the loop."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from array import array
from pathlib import Path

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from phyai_ros import robots
from phyai_ros.nodes import qos
from phyai_ros.nodes.sim_cameras import camera_topics
from phyai_ros.sim import expert, world
from phyai_ros.sim import kinematics as kin

DOMAIN = 72
PATIENCE = 60.0


class Rig:
    """One sim_node process and a node that listens to it."""

    def __init__(self, **parameters):
        arguments = [f"{key}:={value}" for key, value in parameters.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "phyai_ros.nodes.sim_node", "--ros-args"]
            + [part for argument in arguments for part in ("-p", argument)],
            env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=DOMAIN)
        self.node = rclpy.create_node("sim_rig", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.joints, self.images, self.events, self.clocks = [], {}, [], []
        self.diagnostics = {}
        listen = self.node.create_subscription
        listen(JointState, "joint_states", self.joints.append, qos.joint_states())
        for name in world.CAMERAS:
            self.images[name] = []
            topic = f"camera/{name}/image_raw"
            listen(Image, topic, self.images[name].append, qos.camera())
        listen(
            String, "sim/episode", lambda m: self.events.append(json.loads(m.data)), qos.episode()
        )
        listen(Clock, "/clock", self.clocks.append, qos.clock())
        listen(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.diagnostics())
        self.commands = self.node.create_publisher(
            Float64MultiArray, "forward_position_controller/commands", qos.command()
        )
        self.reset = self.node.create_client(Trigger, "sim_node/reset")

    def _on_diagnostics(self, message):
        for status in message.status:
            self.diagnostics[status.name] = {v.key: v.value for v in status.values}

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None:
                pytest.fail(f"sim_node ended:\n{self.process.stdout.read()}")
            assert time.monotonic() < end, f"never came: {what}"
            self.executor.spin_once(timeout_sec=0.1)

    def send(self, values):
        self.commands.publish(Float64MultiArray(data=array("d", values)))

    def next_episode(self):
        self.until(self.reset.service_is_ready, "reset service")
        future = self.reset.call_async(Trigger.Request())
        self.until(future.done, "answer to reset")
        answer = future.result()
        assert answer.success
        return json.loads(answer.message)

    def measured(self):
        message = self.joints[-1]
        by_name = dict(zip(message.name, message.position, strict=True))
        return np.array([by_name[n] for n in kin.JOINTS])

    def run_expert(self, seed, order=kin.JOINTS):
        """Commands at 20 Hz from measured joints until the episode ends; its event."""
        block = world.make(seed=seed).state().target_block
        place = [kin.JOINTS.index(n) for n in order]
        self.until(lambda: self.joints and self.commands.get_subscription_count(), "sim_node")
        seen = len(self.events)

        def tick():
            self.send(expert.chunks(self.measured(), block, horizon=1)[0][place])

        timer = self.node.create_timer(0.05, tick)
        self.until(lambda: any(e["event"] == "end" for e in self.events[seen:]), "end of episode")
        self.node.destroy_timer(timer)
        return next(e for e in self.events[seen:] if e["event"] == "end")

    def set(self, name, value):
        client = self.node.create_client(SetParameters, "sim_node/set_parameters")
        self.until(client.service_is_ready, "parameter service")
        kind = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=value)
        request = SetParameters.Request(parameters=[Parameter(name=name, value=kind)])
        future = client.call_async(request)
        self.until(future.done, "answer to set_parameters")
        assert future.result().results[0].successful

    def close(self):
        self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(timeout=20)
        finally:
            self.process.kill()
            self.node.destroy_node()
            self.context.try_shutdown()
        return status, self.process.stdout.read()


@pytest.fixture
def rig(request):
    made = Rig(**getattr(request, "param", {}))
    yield made
    made.close()


def test_expert_reaches_the_block_in_two_episodes(rig):
    rig.until(lambda: any(e["event"] == "start" for e in rig.events), "start event")
    assert rig.events[0]["instruction"] == world.make(seed=0).instruction
    first = rig.run_expert(seed=0)
    assert first["success"] is True
    assert first["distance"] < 0.03
    started = rig.next_episode()
    assert started["seed"] == 1
    rig.joints.clear()
    second = rig.run_expert(seed=1)
    assert second["success"] is True
    assert second["seed"] == 1
    status, output = rig.close()
    assert status == 0, output
    assert "Traceback" not in output


def test_images_come_in_sets_under_one_stamp(rig):
    rig.until(lambda: all(len(i) >= 10 for i in rig.images.values()), "ten images a camera")
    stamps = [
        {(m.header.stamp.sec, m.header.stamp.nanosec) for m in messages}
        for messages in rig.images.values()
    ]
    assert len(stamps[0] & stamps[1]) >= 5
    image = rig.images["scene"][-1]
    assert (image.width, image.height, image.encoding, image.step) == (320, 240, "rgb8", 960)
    assert np.frombuffer(image.data, np.uint8).std() > 20
    joints = rig.joints[-1]
    assert list(joints.name) == list(kin.JOINTS)
    assert len(joints.velocity) == 7
    times = [m.header.stamp.sec + m.header.stamp.nanosec / 1e9 for m in rig.joints]
    assert all(b > a for a, b in itertools.pairwise(times))
    rig.until(lambda: "sim_node: pace" in rig.diagnostics, "diagnostics")
    assert "real-time factor" in rig.diagnostics["sim_node: pace"]


def test_bad_commands_move_nothing_and_are_counted(rig):
    rig.until(lambda: rig.joints and rig.commands.get_subscription_count(), "sim_node")
    start = rig.measured()
    rig.send([1.0, 2.0])
    rig.until(lambda: "wrong length: 1" in refused(rig), "count of wrong length")
    rig.send([*start[:6], float("nan")])
    rig.until(lambda: "not finite: 1" in refused(rig), "count of not finite")
    count = len(rig.joints)
    rig.until(lambda: len(rig.joints) > count + 20, "more joint states")
    np.testing.assert_allclose(rig.measured(), start, atol=1e-3)
    _, output = rig.close()
    assert "2 values, expected 7" in output
    assert "not finite: finger_joint" in output


def refused(rig):
    return rig.diagnostics.get("sim_node: episode", {}).get("commands refused", "")


REVERSED = tuple(reversed(kin.JOINTS))


@pytest.mark.parametrize(
    "rig",
    [{"joints": f"[{', '.join(REVERSED)}]", "publish_clock": "true", "speed": 2.0}],
    indirect=True,
)
def test_other_joint_order_and_simulated_clock(rig):
    assert rig.run_expert(seed=0, order=REVERSED)["success"] is True
    rig.until(lambda: len(rig.clocks) > 100, "clock")
    ticks = [m.clock.sec + m.clock.nanosec / 1e9 for m in rig.clocks]
    assert all(b >= a for a, b in itertools.pairwise(ticks))


@pytest.mark.parametrize("rig", [{"instruction": "'reach the green block'"}], indirect=True)
def test_fixed_instruction_is_the_task_of_every_episode(rig):
    rig.until(lambda: rig.events, "start event")
    assert rig.events[0]["target"] == "green"
    assert rig.next_episode()["instruction"] == "reach the green block"


@pytest.mark.parametrize("told", [True, False])
def test_each_episodes_task_is_told_where_that_is_asked_for(told):
    rig, heard = Rig(tell_instruction=str(told).lower()), []
    try:
        rig.node.create_subscription(
            String, "instruction", lambda m: heard.append(m.data), qos.instruction()
        )
        rig.until(lambda: rig.events, "start event")
        wanted = [rig.events[0]["instruction"], rig.next_episode()["instruction"]]
        assert wanted[0] != wanted[1]
        if told:
            rig.until(lambda: heard == wanted, "both tasks")
        assert heard == wanted * told
    finally:
        rig.close()


TOPICS = """
joint_state_topics: [/arm/joint_states]
cameras:
  scene: {topic: /left/color/image_raw}
  wrist: {topic: /hand/color/image_raw}
"""


def test_the_topics_and_the_order_are_those_of_the_robots_yaml(tmp_path):
    path = tmp_path / "mine.yaml"
    order = f"output: {{topic: /arm/commands, joints: [{', '.join(REVERSED)}]}}"
    path.write_text(f"extends: ur10e\n{TOPICS}{order}\n")
    rig = Rig(robot=path)
    try:
        images = {"left": [], "hand": []}
        for name, came in images.items():
            listen = rig.node.create_subscription
            listen(Image, f"/{name}/color/image_raw", came.append, qos.camera())
        listen(JointState, "/arm/joint_states", rig.joints.append, qos.joint_states())
        rig.commands = rig.node.create_publisher(Float64MultiArray, "/arm/commands", qos.command())
        rig.until(lambda: all(images.values()), "images")
        assert images["hand"][-1].header.frame_id == "wrist_camera_optical_frame"
        assert rig.run_expert(seed=0, order=REVERSED)["success"] is True
        assert not any(rig.images.values())
    finally:
        rig.close()


FORWARD = """extends: ur10e_driver
output: {type: forward_command, topic: /forward_position_controller/commands}
"""
SPLIT = """extends: ur10e
further_outputs:
  - type: joint_trajectory
    topic: /wrist/joint_trajectory
    joints: [wrist_3_joint, wrist_2_joint]
"""


def test_the_drivers_states_are_there_whatever_the_output(tmp_path):
    """With a forward controller the handoff waited for a readiness that nobody spoke of."""
    path = tmp_path / "mine.yaml"
    path.write_text(FORWARD)
    rig, ready, speed = Rig(robot=path), [], []
    try:
        robot, listen = robots.load(path), rig.node.create_subscription
        listen(Bool, robot.ready["program"].topic, ready.append, qos.robot_status())
        listen(Float64, robot.speed_scaling.topic, speed.append, qos.joint_states())
        rig.until(lambda: ready and speed and rig.joints, "the robot's states")
        assert (ready[-1].data, speed[-1].data) == (True, 100.0)
        goal = rig.measured()
        goal[0] += 0.1
        rig.until(rig.commands.get_subscription_count, "sim_node's subscription")

        def near():
            rig.send(goal)
            return abs(rig.measured()[0] - goal[0]) < 0.01

        rig.until(near, "the command's goal")
        rig.set("program_running", False)
        rig.until(lambda: not ready[-1].data, "no more readiness")
        goal[0] += 0.1
        for _ in range(20):
            rig.send(goal)
            seen = len(rig.joints)
            rig.until(lambda seen=seen: len(rig.joints) > seen, "joint states")
        assert abs(rig.measured()[0] - goal[0]) > 0.09
    finally:
        rig.close()


def test_every_output_is_heard_whichever_comes_first(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SPLIT)
    rig = Rig(robot=path)
    try:
        trajectories = rig.node.create_publisher(
            JointTrajectory, "/wrist/joint_trajectory", qos.command()
        )
        rig.until(lambda: rig.joints and rig.commands.get_subscription_count(), "sim_node")
        rig.until(trajectories.get_subscription_count, "the second output's subscription")
        start = rig.measured()
        goal = start.copy()
        goal[[0, 4, 5]] += (0.1, -0.08, 0.06)
        point = JointTrajectoryPoint(positions=[goal[5], goal[4]], velocities=[0.0, 0.0])
        point.time_from_start.nanosec = 500_000_000
        names = ["wrist_3_joint", "wrist_2_joint"]

        def near():
            rig.send(np.delete(goal, [4, 5]))
            trajectories.publish(JointTrajectory(joint_names=names, points=[point]))
            return np.abs(rig.measured() - goal).max() < 0.01

        rig.until(near, "both goals")
    finally:
        rig.close()


def test_the_yaml_of_the_guide_to_a_real_arm_runs_in_the_simulator(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "ur10e.md").read_text()
    text = re.search(r"```yaml\n(# my_ur10e.yaml\n.*?)```", guide, re.DOTALL).group(1)
    path = tmp_path / "my_ur10e.yaml"
    path.write_text(text)
    rig, came = Rig(robot=path), []
    try:
        rig.node.create_subscription(Image, "/scene/color/image_raw", came.append, qos.camera())
        rig.until(lambda: came and rig.joints, "an image and joint states")
    finally:
        rig.close()


@pytest.mark.parametrize(
    ("camera", "says"),
    [
        ("roof: {topic: /roof}", "cameras.roof: the simulator has no such camera; it has scene"),
        ("wrist: {topic: /hand/compressed}", "cameras.wrist.topic: the simulator publishes"),
    ],
)
def test_a_camera_that_the_simulator_cannot_be_is_refused_by_name(tmp_path, camera, says):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: ur10e\ncameras:\n  {camera}\n")
    with pytest.raises(ValueError, match=re.escape(says)):
        camera_topics(robots.load(path))


@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [
        ("robot", "panda", "ur10e"),
        ("camera_rate", "-1.0", "from 0.5 to 120"),
        ("conveyor_speed", "9.0", "from 0 to 0.3"),
        ("instruction", "make_coffee", "red, green, blue"),
        ("joints", "[elbow_joint]", "shoulder_pan_joint"),
    ],
)
def test_bad_parameter_ends_with_what_is_allowed(parameter, value, allowed):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "phyai_ros.nodes.sim_node",
            "--ros-args",
            "-p",
            f"{parameter}:={value}",
        ],
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2), output
    assert parameter in output or value in output
    assert allowed in output
    assert "Traceback" not in output
