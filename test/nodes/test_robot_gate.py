# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether the robot takes commands, by what its driver says of it."""

from __future__ import annotations

import time

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import Bool, Float64

from phyai_ros import robots
from phyai_ros.nodes import qos, robot_gate
from phyai_ros.nodes.diagnostics import EdgeLog
from phyai_ros.nodes.robot_gate import RobotGate
from phyai_ros.nodes.streams import Stream
from phyai_ros.robots.parts import Ready, SpeedScaling

TOPIC = "/driver/running"


class World:
    """A gate that listens, and drivers that come and go."""

    def __init__(self, context) -> None:
        program = Ready(topic=TOPIC, type="std_msgs/msg/Bool", values=[True])
        robot = robots.load("ur10e").model_copy(update={"ready": {"program": program}})
        self.node = rclpy.create_node("gate", context=context)
        self.driver = rclpy.create_node("driver", context=context)
        self.gate = RobotGate(self.node, robot, EdgeLog(self.node.get_logger()), lambda: None)
        self.executor = SingleThreadedExecutor(context=context)
        self.executor.add_node(self.node)

    def start(self, *said: bool):
        publisher = self.driver.create_publisher(Bool, TOPIC, qos.robot_status())
        for value in said:
            publisher.publish(Bool(data=value))
        self.until(lambda: self.node.count_publishers(TOPIC) > 0)
        return publisher

    def stop(self, publisher) -> None:
        self.driver.destroy_publisher(publisher)
        self.until(lambda: self.node.count_publishers(TOPIC) == 0)

    def until(self, condition) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, self.gate.trouble()
            self.executor.spin_once(timeout_sec=0.05)
            self.gate.watch()
        self.gate.watch()


@pytest.fixture
def world(ros):
    world = World(ros)
    yield world
    world.gate.destroy()
    world.node.destroy_node()
    world.driver.destroy_node()


@pytest.mark.parametrize(("seen_gone", "told"), [(True, True), (False, True), (True, False)])
def test_the_yes_of_a_driver_is_not_that_of_the_one_that_is_started_in_its_place(
    world, seen_gone, told, monkeypatch
):
    """told: the middleware marks messages as it lists their publishers."""
    if not told:
        monkeypatch.setattr(robot_gate, "SAID", 0.0)
        monkeypatch.setattr(Stream, "_hear", lambda stream, gid: None)
    first = world.start(True)
    world.until(lambda: world.gate.trouble() is None)
    if seen_gone:
        world.stop(first)
        assert "is gone" in world.gate.trouble()
        second = world.start()
    else:
        second = world.start()
        world.until(lambda: world.node.count_publishers(TOPIC) == 2)
        world.driver.destroy_publisher(first)
        world.until(lambda: world.node.count_publishers(TOPIC) == 1)
    assert world.gate.trouble() is not None  # it has said nothing
    second.publish(Bool(data=True))
    world.until(lambda: world.gate.trouble() is None)


def test_a_speed_that_is_no_number_is_not_the_one_before(ros):
    robot = robots.load("ur10e").model_copy(update={"speed_scaling": SpeedScaling(topic="/speed")})
    node = rclpy.create_node("gate", context=ros)
    gate = RobotGate(node, robot, EdgeLog(node.get_logger()), lambda: None)
    gate._speed_stream.deliver(Float64(data=50.0))
    assert (gate.trouble(), gate.factor) == (None, 0.5)
    gate._speed_stream.deliver(Float64(data=float("nan")))
    assert "has not said how fast it runs" in (gate.trouble() or "")
    assert gate.factor == 1.0
    gate._speed_stream.deliver(Float64(data=100.0))
    assert (gate.trouble(), gate.factor) == (None, 1.0)
    gate.destroy()
    node.destroy_node()


def test_silence_is_not_taken_for_a_stop(ros):
    robot = robots.load("ur10e").model_copy(update={"speed_scaling": SpeedScaling(topic="/speed")})
    node = rclpy.create_node("gate", context=ros)
    gate = RobotGate(node, robot, EdgeLog(node.get_logger()), lambda: None)
    stream = gate._speed_stream
    assert "has not said how fast" in gate.trouble()
    assert not gate.stands
    stream.deliver(Float64(data=0.0))
    assert "is paused" in gate.trouble()
    assert gate.stands
    stream._last -= 2.0
    assert "says no more how fast" in gate.trouble()
    assert not gate.stands
    gate.destroy()
    node.destroy_node()


def test_a_driver_that_was_killed_and_is_still_listed_has_said_yes_for_itself_alone(world):
    """For 20 s the graph lists both, under one name."""
    world.start(True)
    world.until(lambda: world.gate.trouble() is None)
    again = rclpy.create_node("driver", context=world.node.context)
    second = again.create_publisher(Bool, TOPIC, qos.robot_status())
    world.until(lambda: world.node.count_publishers(TOPIC) == 2)
    world.until(lambda: world.gate.trouble() is not None)
    second.publish(Bool(data=True))
    world.until(lambda: world.gate.trouble() is None)
    again.destroy_node()


def test_another_node_that_publishes_there_too_changes_nothing(world):
    world.start(True)
    world.until(lambda: world.gate.trouble() is None)
    other = rclpy.create_node("bag_player", context=world.node.context)
    other.create_publisher(Bool, TOPIC, qos.robot_status())
    world.until(lambda: world.node.count_publishers(TOPIC) == 2)
    for _ in range(20):
        world.gate.watch()
    assert world.gate.trouble() is None
    other.destroy_node()


def test_a_gate_that_starts_beside_one_that_was_killed_believes_who_speaks(ros):
    """The one that was killed is listed as well, and says nothing."""
    twins = [rclpy.create_node("driver", context=ros) for _ in range(2)]
    publishers = [twin.create_publisher(Bool, TOPIC, qos.robot_status()) for twin in twins]
    publishers[1].publish(Bool(data=True))
    world = World(ros)
    world.until(lambda: world.node.count_publishers(TOPIC) == 2)
    world.until(lambda: world.gate.trouble() is None)
    for _ in range(20):
        world.gate.watch()
    assert world.gate.trouble() is None
    world.gate.destroy()
    for node in (*twins, world.node, world.driver):
        node.destroy_node()
