# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""overlay_node over real DDS, on the pictures, joints and calibration of a simulator process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from node_rig import PATIENCE, Rig
from sensor_msgs.msg import CameraInfo, Image, JointState

from phyai_ros import robots
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.overlay_camera import camera_from_info
from phyai_ros.nodes.overlay_node import OverlayNode
from phyai_ros.nodes.topics import OVERLAY
from phyai_ros.robots.geometry import Geometry

DOMAIN = 90
SCALE = 2


class Scene(Rig):
    """A simulator that nobody commands, the node, and what they publish by topic."""

    def __init__(self, **parameters):
        command = [sys.executable, "-m", "phyai_ros.nodes.sim_node"]
        self.sim = subprocess.Popen(command, env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)})
        super().__init__(OverlayNode, DOMAIN, scale=SCALE, rate=20.0, **parameters)
        self.came = {}
        make = self.test.create_publisher
        self.chunks = make(ActionChunk, "/phyai/chunk", qos.chunk())
        self.states = make(HandoffState, "/phyai/handoff_state", qos.handoff_state())

    def listen(self, kind, topic, profile):
        self.on_test_thread(
            lambda: self.test.create_subscription(
                kind, topic, lambda message: self.came.__setitem__(topic, message), profile
            )
        )

    def plan(self, positions, names, stamp, index=2):
        """Says that the handoff plays this from the moment of a stamp on."""
        chunk = ActionChunk(request_id=5, joint_names=names, horizon=len(positions))
        chunk.header.stamp = stamp
        chunk.step.nanosec = 50_000_000
        chunk.positions = np.ravel(positions).tolist()
        state = HandoffState(state=HandoffState.EXECUTING, request_id=5, index=index)
        state.header.stamp = stamp
        self.chunks.publish(chunk)
        self.states.publish(state)

    def close(self):
        super().close()
        self.sim.send_signal(signal.SIGINT)
        try:
            self.sim.wait(PATIENCE)
        finally:
            self.sim.kill()


@pytest.fixture
def scene():
    made = Scene()
    yield made
    made.close()


def test_the_plan_is_drawn_into_the_cameras_picture(scene):
    robot = robots.load("ur10e")
    geometry = Geometry(robot)
    picture, raw, info = f"{OVERLAY}/scene", "/camera/scene/image_raw", "/camera/scene/camera_info"
    scene.listen(Image, picture, qos.overlay())
    scene.listen(Image, raw, qos.camera())
    scene.listen(CameraInfo, info, qos.camera())
    scene.listen(JointState, "/joint_states", qos.joint_states())
    scene.until(lambda: picture in scene.came, "a picture before there is a plan")
    before = pixels(scene.came[picture])
    scene.until(lambda: info in scene.came and "/joint_states" in scene.came, "calibration, joints")
    joints = scene.came["/joint_states"]
    rows = np.tile(joints.position, (12, 1))
    rows[:, 0] += np.linspace(0.0, 0.3, 12)  # the pan joint sweeps the tool sideways
    rows[:, 1] += np.linspace(0.0, 0.3, 12)  # and the shoulder lowers it
    names = list(joints.name)
    assert names == list(robot.joint_names)

    def shown():
        message = scene.came[picture]
        return magenta(pixels(message)).sum() > 3

    scene.until(shown, "the plan", lambda: scene.plan(rows, names, joints.header.stamp))
    message = scene.came[picture]
    after = pixels(message)
    assert message.header.frame_id == scene.came[raw].header.frame_id
    assert after.shape == (240 * SCALE, 320 * SCALE, 3)
    camera = camera_from_info(scene.came[info], raw)
    into = np.linalg.inv(geometry.camera("scene", rows[0]))
    points = geometry.tool_points("gripper", rows) @ into[:3, :3].T + into[:3, 3]
    x, y = (camera.project(points)[-1] + 0.5) * SCALE - 0.5
    ys, xs = np.nonzero(magenta(after))
    assert np.hypot(ys - y, xs - x).min() < 4.0, "the last row is where the tool will be"
    # The simulator stands still: what else differs are the words below.
    changed = np.abs(after.astype(int) - before.astype(int)).max(axis=2) > 25
    assert 20 < changed[:420].sum() < 0.05 * changed[:420].size


def test_pictures_are_asked_for_while_somebody_looks(scene):
    def asked(role):
        """Subscriptions to a camera, of which the test has none."""
        return scene.test.count_subscribers(f"/camera/{role}/image_raw")

    scene.until_says("overlay scene", "nobody looks")
    scene.until(lambda: scene.value("calibration scene", "received") > 20, "a camera to follow")
    assert asked("scene") == asked("wrist") == 0
    subscription = scene.test.create_subscription(
        Image, f"{OVERLAY}/wrist", lambda message: None, qos.overlay()
    )
    scene.until_says("overlay wrist", "ok")
    scene.until(lambda: scene.value("overlay wrist", "pictures") > 2, "pictures")
    assert asked("scene") == 0
    scene.test.destroy_subscription(subscription)
    scene.until(lambda: asked("wrist") == 0, "the end of asking")
    scene.until_says("overlay wrist", "nobody looks")
    assert scene.value("overlay scene", "pictures") == 0


def test_a_camera_without_calibration_is_named(scene):
    """A driver that publishes pictures alone: what is missing is in /diagnostics."""
    scene.sim.send_signal(signal.SIGINT)
    scene.sim.wait(PATIENCE)
    scene.transition("deactivate", "activate")  # forgets no calibration, hears no new one
    for view in scene.node._views.values():
        view.camera = None
    scene.listen(Image, f"{OVERLAY}/scene", qos.overlay())
    image = Image(height=240, width=320, encoding="rgb8", step=960, data=bytes(240 * 960))
    publisher = scene.test.create_publisher(Image, "/camera/scene/image_raw", qos.camera())

    def shoot():
        convert.set_time(image.header.stamp, scene.test.get_clock().now().nanoseconds)
        publisher.publish(image)

    scene.until_says("overlay scene", "nothing has come on /camera/scene/camera_info", shoot)


def pixels(message):
    return np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)


def magenta(picture):
    """Where the colour of a plan's last rows is."""
    red, green, blue = (picture[..., i].astype(int) for i in range(3))
    return (red > 170) & (green < 90) & (blue > 110)
