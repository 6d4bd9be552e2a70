# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a launch test hears of the system that it launched."""

import time

import rclpy
from rclpy.executors import SingleThreadedExecutor

from phyai_ros.msg import HandoffState
from phyai_ros.nodes import qos

PATIENCE = 120.0


class Listening:
    """Of a unittest.TestCase with ``DOMAIN``, the ROS domain. states: of the handoff, as they
    come."""

    def setUp(self):
        self.states = []
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=self.DOMAIN)
        self.node = rclpy.create_node("launch_test", context=self.context)
        self.node.create_subscription(
            HandoffState, "phyai/handoff_state", self.states.append, qos.handoff_state()
        )
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def tearDown(self):
        self.node.destroy_node()
        self.context.try_shutdown()

    def wait_for(self, failure, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, f"{failure}; last state: {self.states[-1:]}")
            self.executor.spin_once(timeout_sec=0.1)

    def executing(self):
        self.states.clear()
        self.wait_for(
            "the arm was never commanded",
            lambda: any(s.state == HandoffState.EXECUTING for s in self.states),
        )
