# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Makes test/data/watch_messages.jsonl.gz: what ``phyai-ros watch`` hears of a running system.

phyai-ros up sim:=true instruction:="reach the red block" duration:=0    # in another terminal
python test/tools/record_watch.py SECONDS OUT
"""

import base64
import gzip
import json
import sys
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String

from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
from phyai_ros.nodes import qos

TOPICS = {
    "phyai/handoff_state": (HandoffState, qos.handoff_state),
    "phyai/chunk": (ActionChunk, qos.chunk),
    "phyai/request": (InferenceRequest, qos.request),
    "instruction": (String, qos.instruction),
    "/diagnostics": (DiagnosticArray, qos.diagnostics),
}


def main(seconds, out):
    rclpy.init()
    node = rclpy.create_node("record_watch")
    lines, began = [], time.monotonic()

    def keeper(topic):
        def keep(serialised):
            words = base64.b64encode(serialised).decode()
            lines.append(json.dumps([round(time.monotonic() - began, 4), topic, words]))

        return keep

    for topic, (kind, profile) in TOPICS.items():
        node.create_subscription(kind, topic, keeper(topic), profile(), raw=True)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while time.monotonic() - began < seconds:
        executor.spin_once(timeout_sec=0.1)
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write("\n".join(lines).encode())
    rclpy.shutdown()


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2])
