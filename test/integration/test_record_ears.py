# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The recorder's two participants: nobody but the control thread publishes to the second."""

import os
import subprocess
import sys
import time

import pytest
import rclpy
from node_rig import image, picture
from rclpy.context import Context
from sensor_msgs.msg import Image
from spinning import SpinningNode

from phyai_ros.msg import HandoffState
from phyai_ros.nodes import qos

DOMAIN = 59
PATIENCE = 60.0
STATE, CAMERA = "/phyai/handoff_state", "/camera/scene/image_raw"
LISTEN = """
import os, sys
from phyai_ros import robots
from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.bags.writer import BagWriter
from phyai_ros.tools.record_node import RecordNode
recorder = BagRecorder(lambda: BagWriter(sys.argv[1]), 1 << 26, 0)
node = RecordNode(robots.load("ur10e"), recorder, [])
for thread in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{thread}/comm") as name:
        print(name.read().strip(), os.sched_getscheduler(int(thread)) & 3, flush=True)
print("refusal", node.refusal, flush=True)
sys.stdin.readline()
node.close()
recorder.close()
"""


def wait(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.fixture
def listener(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(tmp_path / "bag")],
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate("\n", timeout=PATIENCE)


def test_cameras_do_not_publish_to_the_participant_that_hears_the_control_thread(listener):
    context = Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN)
    node = SpinningNode("source", context)
    try:
        node.create_publisher(HandoffState, STATE, qos.handoff_state())
        pictures = node.create_publisher(Image, CAMERA, qos.camera())
        pictures.publish(image(picture()))

        def names(topic):
            found = {i.node_name for i in node.get_subscriptions_info_by_topic(topic)}
            return {name for name in found if name.startswith("phyai_record_")}

        (states,), (cameras,) = wait(lambda: names(STATE)), wait(lambda: names(CAMERA))
        assert states == f"{cameras}_control"
    finally:
        node.close()
        context.try_shutdown()


def test_receiving_threads_are_real_time_or_it_is_said_why_not(listener):
    lines = []
    while not (lines and lines[-1].startswith("refusal")):
        lines.append(listener.stdout.readline().strip())
        assert lines[-1]
    refused = lines.pop() != "refusal None"
    policies = dict.fromkeys(("dds.shm", "other"), frozenset())
    for line in lines:
        name, policy = line.rsplit(" ", 1)
        if name != "dds.shm.wdog":  # Fast DDS's own housekeeping
            kind = "dds.shm" if name.startswith("dds.shm.") else "other"
            policies[kind] |= {int(policy)}
    assert policies["dds.shm"] == ({os.SCHED_OTHER} if refused else {os.SCHED_FIFO})
    assert policies["other"] == {os.SCHED_OTHER}
