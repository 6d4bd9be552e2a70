# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""From the command ``phyai-ros up`` to the first command at the robot, everything installed.

Starts the whole graph with the simulator and listens to the command topic; the listener starts
first, so that its own start does not count. Adds a row to benchmarks/results/startup.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time

import children
import rclpy
import record
from std_msgs.msg import Float64MultiArray

from phyai_ros import robots
from phyai_ros.nodes import qos

LONGEST = 15.0
PATIENCE = 120.0
GRAPH = ("model:=gr00t", "robot:=ur10e", "sim:=true", "instruction:=reach the red block")


def first_command(topic: str) -> float:
    """Seconds from the start of the graph to the first message on ``topic``."""
    node = rclpy.create_node("bench_startup")
    came: list[float] = []
    node.create_subscription(
        Float64MultiArray, topic, lambda message: came.append(time.monotonic()), qos.command()
    )
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        children.python(
            *("-m", "phyai_ros.tools", "up", *GRAPH, f"out:={folder}"),
            stop=signal.SIGINT,
            patience=15.0,
            stdout=sys.stderr,
        ) as graph,
    ):
        while not came and time.monotonic() - started < PATIENCE and graph.poll() is None:
            rclpy.spin_once(node, timeout_sec=0.1)
    node.destroy_node()
    if not came:
        raise SystemExit(f"startup: no command on {topic} within {PATIENCE:g} s")
    return came[0] - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    os.environ["ROS_DOMAIN_ID"] = str(random.randint(1, 100))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    rclpy.init()
    topic = robots.load("ur10e").output.topic
    seconds = sorted(first_command(topic) for _ in range(runs))
    rclpy.shutdown()
    median = seconds[len(seconds) // 2]
    entry = record.row(
        "startup",
        {
            "what": "phyai-ros up " + " ".join(GRAPH) + " -> first command",
            "runs_s": [round(s, 2) for s in seconds],
            "median_s": round(median, 2),
            "wanted": {"median_s_at_most": LONGEST},
            "passed": median <= LONGEST,
        },
    )
    record.save("startup.jsonl", entry)
    print(json.dumps(entry))
    return 0 if entry["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
