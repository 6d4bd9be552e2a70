# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Participants that come into a graph in which one was killed, and what they find there.

One participant publishes a topic of each of many types. The first newcomer finds them all and is
killed; COUNT others come at once, as after a machine's crash. Prints, a JSON list each, what the
first and each other did not find in LIMIT s. Forked from one process, which has imported the types
and done nothing else: a start takes no time.

    python newcomers.py
"""

import importlib
import json
import os
import signal
import sys
import time

import rclpy
from rclpy.signals import SignalHandlerOptions
from rclpy.type_support import check_for_type_support

COUNT = 8
LIMIT = 30.0
PACKAGES = ("std_msgs", "sensor_msgs", "geometry_msgs", "diagnostic_msgs", "trajectory_msgs")


def message_types():
    """By topic."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"{package}.msg")
        for name, kind in vars(module).items():
            if hasattr(kind, "get_fields_and_field_types"):
                check_for_type_support(kind)
                found[f"/{package}/{name}"] = kind
    return found


def forked(work):
    """(process id, file from which to read what ``work`` gives, as JSON); it lives on until told to
    end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        # Of the middleware's threads too.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        node = rclpy.create_node(f"n{os.getpid()}", start_parameter_services=False)
        os.write(write, json.dumps(work(node)).encode() + b"\n")
        signal.sigwait({signal.SIGTERM})
        node.destroy_node()  # and its shared memory
        rclpy.try_shutdown()
        os._exit(0)
    os.close(write)
    return pid, os.fdopen(read)


def publish(node):
    for topic, kind in TYPES.items():
        node.create_publisher(kind, topic, 1)
    return len(TYPES)


def discover(node):
    """Topics without a publisher after LIMIT s, or none."""
    end = time.monotonic() + LIMIT
    while True:
        absent = [topic for topic in TYPES if not node.count_publishers(topic)]
        if not absent or time.monotonic() > end:
            return absent
        time.sleep(0.1)


TYPES = message_types()


def main():
    running = [forked(publish)]
    try:
        running[0][1].readline()
        first = forked(discover)
        running.append(first)
        print(first[1].readline(), end="")
        os.kill(running.pop()[0], signal.SIGKILL)
        others = [forked(discover) for _ in range(COUNT)]
        running += others
        for _, said in others:
            print(said.readline(), end="")
    finally:
        for pid, _ in running:
            os.kill(pid, signal.SIGTERM)
        for pid, _ in running:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
