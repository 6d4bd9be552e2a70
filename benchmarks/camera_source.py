# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Three 640x480 rgb8 cameras at 30 Hz and joint states at 100 Hz, from a process of their own.

Stands for the robot's drivers. Images of one set carry one stamp, taken when they are published;
every image differs from the last. Prints ``sets N`` when its time is over.
"""

from __future__ import annotations

import argparse
import struct
import threading
import time
from array import array

import children
import numpy as np
import rclpy
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, JointState

from phyai_ros.nodes import qos
from phyai_ros.nodes.memory import keep_freed_memory

CAMERAS = ("left", "right", "wrist")
JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
    "finger_joint",
)
POSTURE = (0.0, -1.2, 1.8, -2.2, -1.57, 0.0, 0.02)
HEIGHT, WIDTH = 480, 640
CAMERA_RATE, JOINT_RATE = 30.0, 100.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = parser.parse_args().seconds
    keep_freed_memory()  # a driver has its buffers
    children.init_ros()
    node = rclpy.create_node("camera_source")
    cameras = [
        node.create_publisher(Image, f"camera/{role}/image_raw", qos_profile_sensor_data)
        for role in CAMERAS
    ]
    joints = node.create_publisher(JointState, "joint_states", qos.joint_states())
    wait_for_subscribers([*cameras, joints])
    stop = threading.Event()
    thread = threading.Thread(target=publish_joints, args=(node, joints, stop))
    thread.start()
    print(f"sets {publish_images(node, cameras, seconds)}", flush=True)
    stop.set()
    thread.join()
    rclpy.shutdown()


def wait_for_subscribers(publishers) -> None:
    """Discovery takes up to seconds and is no part of what is measured."""
    end = time.monotonic() + 20.0
    while any(p.get_subscription_count() == 0 for p in publishers):
        if time.monotonic() > end:
            raise SystemExit("camera_source: nobody subscribed within 20 s")
        time.sleep(0.05)
    time.sleep(0.5)  # the subscribers' side of the match


def publish_images(node, publishers, seconds: float) -> int:
    """Serialised messages: a driver is C++, and what Python takes to serialise is not its time."""
    noise = np.random.default_rng(0).integers(0, 256, HEIGHT * WIDTH * 3, np.uint8)
    message = Image(height=HEIGHT, width=WIDTH, encoding="rgb8", step=WIDTH * 3)
    message.data = array("B", noise.tobytes())
    raw = bytearray(serialize_message(message))
    pixels = len(raw) - noise.size
    start = time.monotonic()
    sets = 0
    while time.monotonic() - start < seconds:
        raw[pixels + sets % 64] ^= 255
        struct.pack_into("<I", raw, pixels + 64, sets)
        # header.stamp comes first, behind the four bytes of the CDR header
        struct.pack_into("<iI", raw, 4, *node.get_clock().now().seconds_nanoseconds())
        sent = bytes(raw)
        for publisher in publishers:
            publisher.publish(sent)
        sets += 1
        time.sleep(max(0.0, start + sets / CAMERA_RATE - time.monotonic()))
    return sets


def publish_joints(node, publisher, stop: threading.Event) -> None:
    message = JointState(name=list(JOINTS))
    start = time.monotonic()
    count = 0
    while not stop.is_set():
        message.position = [p + 0.001 * np.sin(0.05 * count) for p in POSTURE]
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)
        count += 1
        time.sleep(max(0.0, start + count / JOINT_RATE - time.monotonic()))


if __name__ == "__main__":
    main()
