# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros up`` with the simulator, for as long as a test wants, and a node beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import rclpy
from rclpy.context import Context
from spinning import SpinningNode

PATIENCE = 100.0


class LiveSystem:
    """words: more arguments of ``up``. domain: the system's and the node's."""

    def __init__(self, run_dir, domain, *words):
        self.directory = run_dir
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "phyai_ros.tools", "up", "sim:=true", "duration:=0"),
                *("instruction:=reach the red block", f"out:={run_dir}", *words),
            ],
            env={**os.environ, "ROS_DOMAIN_ID": str(domain)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=domain)
        self.node = SpinningNode("test_cell", self.context)

    def call(self, kind, name, request):
        """A service's answer."""
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, name)
        future = client.call_async(request)
        self.until(future.done, name)
        self.node.destroy_client(client)
        return future.result()

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"never came: {what}"
            assert self.process.poll() is None, "the system ended"
            time.sleep(0.05)

    def close(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
        self.node.close()
        self.context.try_shutdown()
