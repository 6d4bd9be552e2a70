# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""phyai-ros doctor beside the live system (simulator, policy, handoff), one fault at a time.

A fault of a stream is published by the test next to the live ones, and the robot's YAML names it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import rclpy
from live_system import LiveSystem
from node_rig import POSTURE, image, joints, jpeg
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray, String
from std_srvs.srv import Trigger

from phyai_ros import robots
from phyai_ros.msg import ActionChunk
from phyai_ros.nodes import convert, qos
from phyai_ros.tools import cli, doctor

pytestmark = pytest.mark.slow
DOMAIN = 78
PATIENCE = 90.0
BASE = "extends: ur10e\njoint_max_age: 10.0\n"
CALM = "{scene: {max_age: 10.0}, wrist: {max_age: 10.0}}"


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    settings = {"ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    cell = LiveSystem(tmp_path_factory.mktemp("run"), DOMAIN)
    try:
        cell.call(Trigger, "handoff_node/resume", Trigger.Request())
        yield cell
    finally:
        cell.close()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def publish(cell):
    """publish(type, topic, make, profile): ``make()`` thirty times a second until the test ends."""
    made, lock = [], threading.Lock()

    def send(publisher, make):
        with lock:
            if made:
                publisher.publish(make())

    def start(kind, topic, make, profile=None):
        publisher = cell.node.create_publisher(kind, topic, profile or 10)
        timer = cell.node.create_timer(0.03, lambda: send(publisher, make))
        made.append((publisher, timer))
        return publisher

    yield start
    with lock:
        ended, made[:] = list(made), []
    for publisher, timer in ended:
        cell.node.destroy_timer(timer)
        cell.node.destroy_publisher(publisher)


class Examine:
    """Runs the doctor on a robot that is ur10e but for some lines of YAML."""

    def __init__(self, file):
        self._file = file

    def __call__(self, text="", seconds=1.5):
        calm = "" if "cameras:" in text else f"cameras: {CALM}\n"
        skew = "" if "max_skew:" in text else "max_skew: 1.0\n"
        self._file.write_text(BASE + calm + skew + text)
        return doctor.examine(robots.load(self._file), seconds)

    def until(self, good, text=""):
        """The first report that is ``good``: on a busy machine discovery takes its time."""
        end = time.monotonic() + PATIENCE
        while not good(report := self(text)):
            found = [(f.stream, f.found) for f in report.findings]
            assert time.monotonic() < end, f"{report.verdict} {found}"
        return report

    def says(self, stream, words, text=""):
        """The finding about a stream with these words."""
        report = self.until(lambda report: _finding(report, stream, words), text)
        return _finding(report, stream, words)


def _finding(report, stream, words):
    found = [f for f in report.findings if stream in f.stream and words in f.found]
    return found[0] if found else None


@pytest.fixture
def examine(cell, tmp_path):
    return Examine(tmp_path / "arm.yaml")


def stamped(message, ahead=0.0):
    stamp = convert.seconds_to_ns(time.time() + ahead)
    convert.set_time(message.header.stamp, stamp)
    return message


def scene(topic, rest=""):
    calm = "" if "max_age" in rest else ", max_age: 10.0"
    return f"cameras: {{scene: {{topic: {topic}{calm}{rest}}}, wrist: {{max_age: 10.0}}}}\n"


def picture():
    return np.random.default_rng(time.monotonic_ns()).integers(0, 256, (48, 64, 3), np.uint8)


def test_a_system_that_works_has_no_error(examine):
    # Between two episodes it stands still for a moment.
    report = examine.until(lambda report: report.moving and not report.status and _told(report))
    assert report.verdict == "The arm is being driven."
    by_name = {row["stream"]: row for row in report.streams}
    assert by_name["camera scene"]["size"] == "320x240"
    assert by_name["camera wrist"]["encoding"] == "rgb8"
    assert 1 < by_name["joints"]["rate_hz"] < 200
    assert by_name["joints"]["joints"] == sorted(POSTURE)
    assert report.delay["chunk ticks"] == 16
    assert abs(report.clock_offset) < 5
    json.dumps(report.as_dict(), allow_nan=False)


def _told(report):
    values = {row["stream"]: row["value"] for row in report.streams}
    return values["instruction"] == "reach the red block"


def test_the_command_prints_one_screen_and_json(cell, capsys, tmp_path):
    robot = tmp_path / "arm.yaml"
    robot.write_text(BASE + "output: {topic: /arm_controller/commands}\n")
    words = ["doctor", "--robot", str(robot), "--seconds", "1"]
    assert cli.main(words) == 1
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 50
    assert "no subscriber on /arm_controller/commands" in text
    assert text.splitlines()[-1].startswith("Nothing moves because")
    assert cli.main([*words, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert any(f["level"] == "error" and f["advice"] for f in report["findings"])


def test_nobody_there(cell, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN + 1))
    report = doctor.examine(robots.load("ur10e"), 1.0)
    assert report.status == 1
    assert "policy_node: is not running" in report.verdict
    assert _finding(report, "handoff_node", "is not running")
    assert _finding(report, "joints", "no publisher on /joint_states")
    # What it listens to itself is nothing that there is.
    for stream in ("camera scene", "camera wrist", "commands"):
        found = _finding(
            report, stream, "no subscriber" if stream == "commands" else "no publisher"
        )
        assert found.advice.endswith("there are: none")


def test_a_camera_on_another_topic_is_named_with_what_there_is(examine):
    found = examine.says("camera scene", "no publisher on /cam0", scene("/cam0/image_raw"))
    assert "/camera/scene/image_raw" in found.advice
    assert found.blocks


def test_another_size_or_encoding(examine):
    text = scene("/camera/scene/image_raw", ", size: [480, 640], encoding: bgr8")
    examine.says("camera scene", "images are 320x240, the YAML says 640x480", text)
    examine.says("camera scene", "encoding is rgb8, the YAML says bgr8", text)


def test_an_encoding_that_cannot_be_read(examine, publish):
    publish(Image, "/depth/image_raw", lambda: stamped(image(picture(), "16UC1")))
    examine.says("camera scene", "messages cannot be used", scene("/depth/image_raw"))


def test_another_type(examine, publish):
    publish(CompressedImage, "/packed/image_raw", lambda: stamped(jpeg(picture())))
    words = "type is sensor_msgs/msg/CompressedImage, expected"
    examine.says("camera scene", words, scene("/packed/image_raw"))


def test_compressed_images_are_understood(examine, publish):
    publish(CompressedImage, "/packed/compressed", lambda: stamped(jpeg(picture())))

    def sized(report):
        row = next(r for r in report.streams if r["stream"] == "camera scene")
        return row["size"] == "64x48"

    report = examine.until(sized, scene("/packed/compressed"))
    assert not [f for f in report.findings if f.stream == "camera scene" and f.blocks]


def at(seconds):
    message = image(picture())
    convert.set_time(message.header.stamp, convert.seconds_to_ns(seconds))
    return message


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("zero", lambda: image(picture()), "stamps are zero"),
        ("future", lambda: stamped(image(picture()), 3.0), "s in the future"),
        ("old", lambda: stamped(image(picture()), -3.0), "s old when they come"),
        ("same", lambda: at(1.7e9), "the same stamp: frozen"),
        ("simulated", lambda: at(time.monotonic() % 1e6), "stamps are simulated time"),
    ],
)
def test_stamps(examine, publish, name, make, words):
    topic = f"/{name}/image_raw"
    publish(Image, topic, make)
    text = scene(topic, ", max_age: 1.0")
    assert examine.says("camera scene", words, text).advice
    if name == "future":
        assert examine.until(lambda report: report.clock_offset < 0, text).clock_offset < -2.5


def test_a_silent_publisher(cell, examine):
    publisher = cell.node.create_publisher(Image, "/silent/image_raw", 1)
    try:
        examine.says("camera scene", "but no message came", scene("/silent/image_raw"))
    finally:
        cell.node.destroy_publisher(publisher)


def test_one_picture_over_and_over_while_the_arm_moves(examine, publish):
    frozen, began = picture(), time.monotonic()

    def moving():
        return stamped(joints({**POSTURE, "elbow_joint": 1.0 + 0.1 * (time.monotonic() - began)}))

    publish(Image, "/frozen/image_raw", lambda: stamped(image(frozen)))
    publish(JointState, "/odd/joints", moving)
    text = scene("/frozen/image_raw") + "joint_state_topics: [/odd/joints]\n"
    examine.says("camera scene", "pixels never change", text)


def test_cameras_that_are_not_taken_together(examine, publish):
    publish(Image, "/late/image_raw", lambda: stamped(image(picture()), -10.0))
    text = scene("/late/image_raw") + "max_skew: 0.025\n"
    examine.says("camera scene, camera wrist", "nearest images are", text)


def test_joints_that_nobody_sends(examine):
    extra = "{unit: rad, position: [-1, 1], velocity: 1, acceleration: 1}"
    text = f"joints: {{left_finger: {extra}}}\n"
    found = examine.says("joints", "nobody sends left_finger", text)
    assert "joint_state_topics" in found.advice


def test_joints_that_are_no_number_or_in_degrees(examine, publish):
    odd = {**POSTURE, "elbow_joint": float("nan"), "wrist_3_joint": 90.0}
    publish(JointState, "/degrees/joints", lambda: stamped(joints(odd)))
    text = "joint_state_topics: [/degrees/joints]\n"
    examine.says("joints", "position is not a number: elbow_joint", text)
    assert "degrees" in examine.says("joints", "wrist_3_joint is at 90.000", text).advice


def test_commands_that_nobody_hears_are_told_from_the_right_topic(examine):
    found = examine.says("commands", "no subscriber", "output: {topic: /arm/nobody}\n")
    assert "/forward_position_controller/commands" in found.advice


def test_a_controller_of_another_kind(cell, examine):
    subscription = cell.node.create_subscription(String, "/arm/text", lambda m: None, 1)
    try:
        text = "output: {topic: /arm/text}\n"
        examine.says("commands", "type is std_msgs/msg/String", text)
    finally:
        cell.node.destroy_subscription(subscription)


def test_two_masters(cell, examine):
    topic = "/forward_position_controller/commands"
    publisher = cell.node.create_publisher(Float64MultiArray, topic, 1)
    try:
        found = examine.says("commands", "test_cell commands the arm too")
        assert "jump" in found.advice
    finally:
        cell.node.destroy_publisher(publisher)


def test_two_policies(cell, examine):
    publisher = cell.node.create_publisher(ActionChunk, "/phyai/chunk", qos.chunk())
    try:
        found = examine.says("chunks", "2 policies answer on /phyai/chunk")
        assert "duplicate" in found.advice
    finally:
        cell.node.destroy_publisher(publisher)


def test_two_drivers_of_the_same_joints(examine, publish):
    publish(JointState, "/joint_states", lambda: joints(POSTURE))
    examine.says("joints", "2 publishers on /joint_states")


def test_an_instruction_that_no_node_can_hear(examine, publish):
    publish(String, "/instruction", lambda: String(data="reach the red block"), 1)
    found = examine.says("instruction", "offered VOLATILE, wanted TRANSIENT_LOCAL")
    assert "--qos-durability transient_local" in found.advice


def test_a_robot_that_takes_no_commands(examine, publish):
    publish(Bool, "/odd/running", lambda: Bool(data=False), qos.robot_status())
    publish(Float64, "/odd/speed", lambda: Float64(data=0.0))
    text = (
        "ready: {program: {topic: /odd/running, type: std_msgs/msg/Bool, values: [true]}}\n"
        "speed_scaling: {topic: /odd/speed}\n"
    )
    examine.says("robot program", "data is False, the arm takes commands at True", text)
    examine.says("robot speed", "paused", text)


@pytest.fixture
def lone_handoff(monkeypatch):
    """start(**parameters): handoff_node alone in a domain of its own, which is then this test's."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN + 2))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    processes = []

    def start(**parameters):
        words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
        command = [sys.executable, "-m", "phyai_ros.nodes.handoff_node", "--ros-args", *words]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    yield start
    for process in processes:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        finally:
            process.kill()


def test_a_node_that_is_not_active(lone_handoff, tmp_path):
    lone_handoff(autostart=False)
    found = Examine(tmp_path / "arm.yaml").says("handoff_node", "is unconfigured, not active")
    assert "ros2 lifecycle set" in found.advice


def test_a_hold_is_told_with_its_way_out(lone_handoff, tmp_path):
    lone_handoff()
    context = Context()
    rclpy.init(context=context, args=[])
    node = rclpy.create_node("test_hold", context=context)
    try:
        client = node.create_client(Trigger, "handoff_node/hold")
        assert client.wait_for_service(PATIENCE)
        future = client.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(
            node, future, SingleThreadedExecutor(context=context), PATIENCE
        )
        assert future.result().success
    finally:
        node.destroy_node()
        context.try_shutdown()
    found = Examine(tmp_path / "arm.yaml").says("handoff", "HOLDING: held by service")
    assert "/handoff_node/resume" in found.advice
