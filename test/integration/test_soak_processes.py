# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The soak's watcher and its bench, as processes over real DDS."""

from __future__ import annotations

import os
import time

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from node_rig import POSTURE, image, joints, picture
from rclpy.context import Context
from sensor_msgs.msg import Image, JointState
from spinning import SpinningNode
from std_msgs.msg import Float64MultiArray, String

from phyai_ros import robots
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import convert, qos
from phyai_ros.tools.soaking.children import Child

DOMAIN = 67
PATIENCE = 30.0
COMMANDS = "/forward_position_controller/commands"
SCENE, RAW = "/camera/scene/image_raw", "/sim_raw/camera/scene/image_raw"


class Rig:
    """A node of the test's own, and a child of the soak's."""

    def __init__(self, words, folder):
        self.lines = []
        environment = {**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)}
        self.child = Child(words, environment, folder / "log", self.lines.append)
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=DOMAIN)
        self.node = SpinningNode("soak_test", self.context)

    def until(self, condition, what, meanwhile=lambda: None):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"never came: {what}; {self.lines[-5:]}"
            meanwhile()
            time.sleep(0.03)

    def said(self, event, text=""):
        return [x for x in self.lines if x.get("event") == event and text in x.get("text", "")]

    def close(self):
        self.child.kill()
        self.node.close()
        self.context.try_shutdown()


@pytest.fixture
def watched(tmp_path):
    words = ["phyai_ros.tools.soaking.watcher", "--robot", "ur10e", "--measured", "/measured"]
    rig = Rig(words, tmp_path)
    rig.commands = rig.node.create_publisher(Float64MultiArray, COMMANDS, qos.command())
    rig.measured = rig.node.create_publisher(JointState, "/measured", qos.joint_states())
    rig.until(lambda: rig.said("counts") and rig.commands.get_subscription_count(), "the watcher")
    yield rig
    rig.close()


def order():
    return [POSTURE[name] for name in robots.load("ur10e").output_joints]


def test_the_watcher_tells_a_command_within_limits_from_others(watched):
    good = order()

    def send(values):
        def again():
            watched.measured.publish(joints())
            watched.commands.publish(Float64MultiArray(data=values))

        return again

    watched.until(
        lambda: watched.lines[-1].get("counts", {}).get("commands", 0) > 20, "commands", send(good)
    )
    # Until its first joint state it cannot know where the arm is, and says so.
    known = [v for v in watched.said("violation") if "no position of the arm" not in v["text"]]
    assert known == []
    watched.until(
        lambda: watched.said("violation", "shoulder_pan_joint"),
        "a jump",
        send([good[0] + 0.5, *good[1:]]),
    )
    watched.until(
        lambda: watched.said("not_finite", "elbow_joint"),
        "NaN",
        send([*good[:2], float("nan"), *good[3:]]),
    )


def test_the_watcher_hears_states_chunks_and_diagnostics(watched):
    make = watched.node.create_publisher
    states = make(HandoffState, "phyai/handoff_state", qos.handoff_state())
    chunks = make(ActionChunk, "phyai/chunk", qos.chunk())
    diagnostics = make(DiagnosticArray, "/diagnostics", qos.diagnostics())

    def speak():
        states.publish(HandoffState(state=HandoffState.EXECUTING, deliver=0.01))
        chunks.publish(ActionChunk(request_id=7, positions=[0.0, float("inf")]))
        status = DiagnosticStatus(name="a: b", level=DiagnosticStatus.WARN, message="c")
        diagnostics.publish(DiagnosticArray(status=[status]))

    watched.until(lambda: watched.said("state"), "a state", speak)
    assert watched.said("state")[0]["fresh"] is True
    watched.until(lambda: watched.said("not_finite", "chunk of request 7"), "a chunk", speak)
    watched.until(lambda: watched.said("said", "a: b: c"), "diagnostics", speak)
    assert len(watched.said("said", "a: b: c")) == 1, "once, not with every repetition"


@pytest.fixture
def bench(tmp_path):
    words = ["phyai_ros.tools.soaking.bench", "--robot", "ur10e", "--raw", "/sim_raw"]
    rig = Rig(words, tmp_path)
    rig.raw = rig.node.create_publisher(Image, RAW, qos.camera())
    rig.images, rig.texts = [], []
    rig.node.create_subscription(Image, SCENE, rig.images.append, qos.camera())
    rig.node.create_subscription(
        String, "/instruction", lambda m: rig.texts.append(m.data), qos.instruction()
    )
    rig.send = lambda: rig.raw.publish(stamped())
    rig.until(lambda: rig.images, "an image", rig.send)
    yield rig
    rig.close()


def stamped():
    message = image(picture())
    convert.set_time(message.header.stamp, time.time_ns())
    return message


def obeyed(rig, command):
    rig.lines.clear()
    rig.child.tell(command)
    rig.until(lambda: any(x.get("done") == command for x in rig.lines), f"an answer to {command}")
    time.sleep(0.2)  # what was under way has arrived
    rig.images.clear()


def test_the_bench_passes_on_what_comes_until_it_is_told_to_tamper(bench):
    fault = {"begin": 0, "kind": "camera_dropped", "parameters": {"camera": "scene"}}
    obeyed(bench, fault)
    for _ in range(10):
        bench.send()
        time.sleep(0.03)
    assert bench.images == [], "what was sent after the fault began never comes"
    obeyed(bench, {"end": 0})
    bench.until(lambda: bench.images, "images again", bench.send)


def test_another_cameras_fault_leaves_this_one_alone(bench):
    fault = {"begin": 0, "kind": "camera_dropped", "parameters": {"camera": "wrist"}}
    obeyed(bench, fault)
    bench.until(lambda: bench.images, "an image", bench.send)


def test_late_images_arrive_with_their_stamps(bench):
    fault = {
        "begin": 0,
        "kind": "camera_delayed",
        "parameters": {"camera": "scene", "seconds": 0.5},
    }
    obeyed(bench, fault)
    bench.until(lambda: bench.images, "a late image", bench.send)
    newest = convert.stamp_to_ns(bench.images[-1].header.stamp)
    assert time.time_ns() - newest >= 0.5e9


def test_the_bench_gives_instructions_and_storms(bench):
    obeyed(bench, {"say": "reach the red block"})
    bench.until(lambda: "reach the red block" in bench.texts, "a task")
    obeyed(bench, {"begin": 0, "kind": "instructions_storm", "parameters": {"seed": 3}})
    bench.until(lambda: len(set(bench.texts)) > 4, "a storm")
    obeyed(bench, {"end": 0})

    def calm():
        before = len(bench.texts)
        time.sleep(0.3)
        return len(bench.texts) == before

    bench.until(calm, "the storm's end")
