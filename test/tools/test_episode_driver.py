# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A service of a node that is gone is not waited for once it is known why."""

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import Trigger

from phyai_ros.tools.episode_driver import DriverError, EpisodeDriver
from phyai_ros.tools.recorder import Recorder

DOMAIN = 54


@pytest.fixture
def node(monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    node = rclpy.create_node("test_driver", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield node, executor
    executor.shutdown()
    node.destroy_node()
    context.try_shutdown()


@pytest.mark.parametrize("there", [False, True], ids=["no service", "no answer"])
def test_the_wait_ends_with_the_reason_of_the_run(node, there):
    node, executor = node
    calls = []

    def spin(seconds):
        calls.append(seconds)
        executor.spin_once(timeout_sec=seconds)

    def stopped():
        ready = len(calls) > 2 and (not there or driver._hold.service_is_ready())
        return "sim_node was killed by SIGKILL" if ready else None

    if there:  # it is there, and answers only what the executor would let it
        other = rclpy.create_node("silent", context=node.context)
        other.create_service(Trigger, "handoff_node/hold", lambda _, response: response)
    driver = EpisodeDriver(node, Recorder(node, {}, (), ()), spin, stopped)
    with pytest.raises(DriverError, match=r"^sim_node was killed by SIGKILL$"):
        driver.next()
    assert sum(calls) < 10.0
    if there:
        other.destroy_node()
