# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros record`` over long times: bags one after the other, and a disk without room."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from node_rig import image, picture
from rclpy.context import Context
from sensor_msgs.msg import Image
from spinning import SpinningNode

from phyai_ros.bags.reader import Bag
from phyai_ros.msg import HandoffState
from phyai_ros.nodes import qos
from phyai_ros.nodes.diagnostics import ERROR

DOMAIN = 68
PATIENCE = 60.0
STATE = "/phyai/handoff_state"


class Recording:
    """A recorder, and a node that publishes numbered states and some megabytes of images."""

    def __init__(self, out, *words):
        self.out, self.log = out, out.parent / "log"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "phyai_ros.tools", "record", "--out", str(out), *words],
                env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
                stdout=file,
                stderr=file,
            )
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=DOMAIN)
        self.node = SpinningNode("source", self.context)
        self.said = {}
        make = self.node.create_publisher
        self._states = make(HandoffState, STATE, 1000)
        self._images = make(Image, "/camera/scene/image_raw", qos.camera())
        self.node.create_subscription(
            DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.diagnostics()
        )
        self._number = 0

    def _on_diagnostics(self, message):
        for status in message.status:
            self.said[status.name.partition(": ")[2]] = status

    def speak(self):
        self._number += 1
        self._states.publish(HandoffState(ticks=self._number))
        self._images.publish(image(picture()))

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"never came: {what}\n{self.log.read_text()}"
            self.speak()
            time.sleep(0.01)

    def heard(self):
        self.until(lambda: self._states.get_subscription_count(), "the recorder")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.node.close()
        self.context.try_shutdown()


@pytest.fixture
def record(tmp_path):
    made = []

    def start(*words):
        made.append(Recording(tmp_path / "bag", *words))
        return made[-1]

    yield start
    for recording in made:
        recording.close()


def numbers(path):
    with Bag(path) as bag:
        return [bag.decode(m).ticks for m in bag.messages([STATE])]


def test_bags_follow_each_other_and_nothing_is_lost_between_them(record):
    recording = record("--split", "1")
    recording.heard()
    folder = recording.out.parent

    def with_states():
        """Bags that are done and have states: images may be heard some bags earlier."""
        last = max(map(int, re.findall(r"bag_(\d+)", recording.log.read_text())), default=1)
        return sum(bool(numbers(folder / f"bag_{n}")) for n in range(max(2, last - 4), last - 1))

    recording.until(lambda: with_states() >= 2, "two bags of states")
    assert recording.stop() == 0, recording.log.read_text()
    bags = [recording.out, *(folder / f"bag_{n}" for n in range(2, 100))]
    found = [n for bag in bags if bag.is_dir() for n in numbers(bag)]
    # While the two find each other, the middleware may deliver out of order.
    assert sorted(found) == list(range(min(found), max(found) + 1))


def test_a_disk_without_room_is_said_and_waited_for(record):
    recording = record("--keep-going", "--reserve", "100000000")  # MB
    recording.until(
        lambda: (
            "recording" in recording.said
            and recording.said["recording"].level == ERROR
            and "shall stay free" in recording.said["recording"].message
        ),
        "what is wrong",
    )
    assert recording.process.poll() is None, "it waits"
    assert recording.stop() == 1
    with Bag(recording.out):
        pass


def test_without_being_told_to_go_on_it_ends(record):
    recording = record("--reserve", "100000000")
    recording.until(lambda: recording.process.poll() is not None, "its end")
    assert recording.process.returncode == 1
    assert "shall stay free" in recording.log.read_text()


def test_where_nobody_speaks_nothing_was_recorded(tmp_path):
    """The recorder hears its own diagnostics; they are no recording of a robot."""
    words = ["record", "--out", str(tmp_path / "bag"), "--duration", "3"]
    run = subprocess.run(
        [sys.executable, "-m", "phyai_ros.tools", *words],
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN + 1)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 1, run.stdout
    assert "nothing was recorded: is the robot running" in run.stderr
    with Bag(tmp_path / "bag") as bag:
        assert {topic.name for topic in bag.topics.values() if topic.count} <= {"/diagnostics"}
