# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node on a UR driver's topics, over real DDS: the test is the policy and the driver.

The driver's controller is ``sim.TrajectoryPlayer``, which refuses what ros2_controllers' refuses.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from node_rig import POSTURE, Rig, joints
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from phyai_ros import robots
from phyai_ros.control.chunk import Chunk
from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.handoff_node import HandoffNode
from phyai_ros.sim.trajectory_player import TrajectoryPlayer

DOMAIN = 73  # and the three after it
NAMES = tuple(POSTURE)
START = np.array(list(POSTURE.values()))
HORIZON, STEP, SPEED = 16, 0.05, 0.1
ROBOT = robots.load("ur10e_driver")


class Driver(Rig):
    """The arm: plays trajectories in its own time; joint states say where it is."""

    def __init__(self, domain: int, robot: str = "ur10e_driver", **parameters) -> None:
        self.states: list[HandoffState] = []
        self.trajectories: list[JointTrajectory] = []
        self.refusals: list[str] = []
        self.player = TrajectoryPlayer(NAMES)
        self.player.start(START)
        self.position = START
        self.blocked_at = np.full(len(START), -np.inf)
        self.stopped_at = np.full(len(START), np.inf)
        self.percent: float | None = 100.0
        self.running = True
        self.silent = False
        self.goal: Callable[[], np.ndarray] = lambda: START
        self._last = time.monotonic()
        super().__init__(
            HandoffNode,
            domain,
            robot=robot,
            instruction="reach the red block",
            request_timeout=0.3,
            joint_state_max_age=0.3,
            **parameters,
        )
        listen, make = self.test.create_subscription, self.test.create_publisher
        listen(HandoffState, "phyai/handoff_state", self.states.append, qos.handoff_state())
        listen(InferenceRequest, "phyai/request", self._answer, qos.request())
        listen(JointTrajectory, ROBOT.output.topic, self._take, qos.command())
        self._chunks = make(ActionChunk, "phyai/chunk", qos.chunk())
        self._joints = make(JointState, "/joint_states", qos.joint_states())
        self._speed = make(Float64, ROBOT.speed_scaling.topic, qos.handoff_state())
        self._program = make(Bool, ROBOT.ready["program"].topic, qos.robot_status())
        self.test.create_timer(0.01, self._step)

    def say(self, running: bool) -> None:
        self.running = running
        self._program.publish(Bool(data=running))

    def _step(self) -> None:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        if self.running and self.player.playing:
            self.position = self.player.advance(passed * (self.percent or 0.0) / 100.0)
        measured = np.minimum(np.maximum(self.position, self.blocked_at), self.stopped_at)
        message = joints(dict(zip(NAMES, measured, strict=True)))
        message.header.stamp = self.test.get_clock().now().to_msg()
        if not self.silent:
            self._joints.publish(message)
        if self.percent is not None:
            self._speed.publish(Float64(data=self.percent))

    def _take(self, message: JointTrajectory) -> None:
        self.trajectories.append(message)
        points = message.points
        times = [convert.ns_to_seconds(convert.stamp_to_ns(p.time_from_start)) for p in points]
        try:
            self.player.accept(
                message.joint_names,
                times,
                [p.positions for p in points],
                [p.velocities for p in points],
            )
        except ValueError as refusal:
            self.refusals.append(str(refusal))

    def _answer(self, request: InferenceRequest) -> None:
        """From where the arm is towards ``goal`` at SPEED rad/s in the first joint."""
        away = self.goal() - self.position
        steps = np.arange(HORIZON)[:, None] * STEP * SPEED
        rows = self.position + np.sign(away) * np.minimum(np.abs(away), steps)
        chunk = Chunk(
            request_id=request.request_id,
            epoch=request.epoch,
            stamp=convert.ns_to_seconds(self.test.get_clock().now().nanoseconds),
            joint_names=NAMES,
            step=STEP,
            positions=rows,
        )
        self._chunks.publish(convert.fill_chunk(ActionChunk(), chunk, {}))

    def until_state(self, state: int, reason: str = "") -> None:
        def reached() -> bool:
            newest = self.states[-1] if self.states else HandoffState()
            return newest.state == state and reason in newest.reason

        self.until(reached, f"state {state} {reason!r}, not {self.states[-1:]}")

    def call(self, name: str) -> Trigger.Response:
        client = self.test.create_client(Trigger, f"handoff_node/{name}")
        self.until(client.service_is_ready, f"service {name}")
        future = client.call_async(Trigger.Request())
        self.until(future.done, f"answer of {name}")
        self.test.destroy_client(client)
        return future.result()


@pytest.fixture
def driver():
    driver = Driver(DOMAIN)
    yield driver
    driver.close()
    assert not driver.refusals


def far() -> np.ndarray:
    return START + np.array([1.0, 0, 0, 0, 0, 0, 0])


def test_nothing_leaves_until_the_robot_says_that_it_takes_commands(driver):
    driver.goal = far
    driver.until_state(HandoffState.HOLDING, "has not said whether it is ready")
    assert driver.trajectories == []
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)
    driver.until(lambda: driver.position[0] > START[0] + 0.05, "the arm moves")
    message = driver.trajectories[-1]
    assert tuple(message.joint_names) == NAMES
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0)
    times = [convert.stamp_to_ns(p.time_from_start) for p in message.points]
    assert times == [50_000_000 * (i + 1) for i in range(len(times))]
    # What is left of the chunk, with speeds, then braking to a standstill.
    assert len(message.points) > 8
    assert message.points[2].velocities[0] == pytest.approx(SPEED, rel=0.05)
    assert list(message.points[-1].velocities) == [0.0] * len(NAMES)
    assert max(abs(p.positions[0]) for p in message.points) < START[0] + 1.0
    # A chunk is one message, not one a tick.
    ticks = driver.states[-1].ticks
    before = len(driver.trajectories)
    driver.until(lambda: driver.states[-1].ticks > ticks + 40, "ticks")
    assert len(driver.trajectories) - before < 30


def test_after_a_protective_stop_it_starts_from_where_the_arm_is_then(driver):
    driver.goal = far
    driver.say(True)
    driver.until(lambda: driver.position[0] > START[0] + 0.05, "the arm moves")
    driver.say(False)
    driver.until_state(HandoffState.HOLDING, "program is False, expected True")
    stopped = driver.position[0]
    # What the controller still had in store is replaced by standing where the arm is.
    driver.until(lambda: len(driver.trajectories[-1].points) == 1, "the last word")
    assert driver.trajectories[-1].points[0].positions[0] == pytest.approx(stopped, abs=0.02)
    sent = len(driver.trajectories)
    moved = START + np.array([-0.3, 0.1, 0, 0, 0, 0, 0])
    driver.position = moved  # by hand
    driver.player.start(moved)
    ticks = driver.states[-1].ticks
    driver.until(lambda: driver.states[-1].ticks > ticks + 10, "ticks")
    assert len(driver.trajectories) == sent
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)
    first = driver.trajectories[sent].points[0]
    np.testing.assert_allclose(first.positions, moved, atol=0.02)


def test_a_protective_stop_does_not_open_a_gripper_that_holds_something(driver):
    finger = NAMES.index("finger_joint")
    driver.blocked_at[finger] = START[finger]
    driver.goal = lambda: np.where(np.arange(len(START)) == finger, 0.0, START)
    driver.say(True)
    driver.until(lambda: driver.position[finger] < 1e-4, "the gripper is told to close")
    driver.say(False)
    driver.until(lambda: len(driver.trajectories[-1].points) == 1, "the last word")
    assert driver.trajectories[-1].points[0].positions[finger] == pytest.approx(0.0, abs=1e-3)
    sent = len(driver.trajectories)
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)
    first = driver.trajectories[sent].points[0]
    assert first.positions[finger] == pytest.approx(0.0, abs=1e-3)


def test_a_blocked_arm_is_held_where_it_is_and_not_where_it_was_sent(driver):
    driver.goal = far
    stop = driver.stopped_at[0] = START[0] + 0.05
    driver.say(True)
    driver.until_state(HandoffState.HOLDING, "from all commands of the last")
    assert driver.trajectories[-1].points[0].positions[0] > stop + 0.1
    driver.until(lambda: abs(driver.position[0] - stop) < 1e-3, "the controller is taken back")
    last = driver.trajectories[-1].points[-1]
    assert last.positions[0] == pytest.approx(stop, abs=1e-3)
    assert list(last.velocities) == [0.0] * len(NAMES)
    sent, ticks = len(driver.trajectories), driver.states[-1].ticks
    driver.until(lambda: driver.states[-1].ticks > ticks + 30, "ticks")
    assert len(driver.trajectories) == sent, "held by what the controller has"
    driver.stopped_at[0] = np.inf
    assert driver.call("resume").success
    driver.until(lambda: driver.position[0] > stop + 0.05, "the arm moves on")


def test_the_controllers_plan_is_replaced_when_joint_states_come_that_were_not_there(driver):
    """The driver was silent when it stopped, and would have gone on with what it had in store."""
    driver.goal = far
    driver.say(True)
    driver.until(lambda: driver.position[0] > START[0] + 0.05, "the arm moves")
    driver.silent = True
    driver.until(lambda: driver.node._measured() is None, "its joint states are too old")
    driver.say(False)
    driver.until_state(HandoffState.HOLDING, "program is False, expected True")
    assert len(driver.trajectories[-1].points) > 1
    driver.silent = False
    driver.until(lambda: len(driver.trajectories[-1].points) == 1, "the last word")
    stopped = driver.position[0]
    assert driver.trajectories[-1].points[0].positions[0] == pytest.approx(stopped, abs=0.02)


def test_a_driver_that_died_has_not_said_yes_for_ever(driver):
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)
    driver.on_test_thread(lambda: driver.test.destroy_publisher(driver._program))
    driver.until_state(HandoffState.HOLDING, "whoever said that the robot is ready is gone")
    driver._program = driver.test.create_publisher(
        Bool, ROBOT.ready["program"].topic, qos.robot_status()
    )
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)


def test_a_hold_by_a_person_outlives_the_robots_own(driver):
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)
    assert driver.call("hold").success
    driver.until_state(HandoffState.HOLDING, "held by service")
    driver.say(False)
    driver.until_state(HandoffState.HOLDING, "program is False")
    driver.say(True)
    driver.until_state(HandoffState.HOLDING, "held by service")
    assert driver.call("resume").success
    driver.until_state(HandoffState.EXECUTING)


@pytest.mark.parametrize("name", ["resume", "reset"])
def test_nobody_can_resume_a_robot_that_takes_no_commands(driver, name):
    driver.say(True)
    driver.until_state(HandoffState.EXECUTING)
    driver.say(False)
    driver.until_state(HandoffState.HOLDING, "program is False")
    sent = len(driver.trajectories)
    driver.call(name)
    ticks = driver.states[-1].ticks
    driver.until(lambda: driver.states[-1].ticks > ticks + 10, "ticks")
    assert len(driver.trajectories) <= sent + 1  # the standstill may still have been on its way
    assert driver.states[-1].state == HandoffState.HOLDING
    assert "program is False" in driver.states[-1].reason


def test_a_slowed_robot_is_not_outrun(driver):
    driver.goal = far
    driver.percent = 40.0
    driver.say(True)
    driver.until(lambda: driver.position[0] > START[0] + 0.02, "the arm moves")
    ticks, states = driver.states[-1].ticks, len(driver.states)
    driver.until(lambda: driver.position[0] > START[0] + 0.10, "the arm moves on")
    # Ticks pass in the arm's own time: 0.08 rad at 0.1 rad/s are 16 ticks, not 40.
    assert 10 <= driver.states[-1].ticks - ticks <= 24
    assert all(s.state == HandoffState.EXECUTING for s in driver.states[states:])
    assert driver.states[-1].starved_ticks == 0
    ahead = driver.trajectories[-1].points[0].positions[0] - driver.position[0]
    assert abs(ahead) < 0.03


def test_a_paused_robot_holds_and_goes_on_when_it_does(driver):
    driver.goal = far
    driver.say(True)
    driver.until(lambda: driver.position[0] > START[0] + 0.05, "the arm moves")
    driver.percent = 0.0
    driver.until_state(HandoffState.HOLDING, "the robot is paused")
    driver.percent = 100.0
    driver.until_state(HandoffState.EXECUTING)
    driver.percent = None
    driver.until_state(HandoffState.HOLDING, "says no more how fast it runs")


def test_a_dry_run_logs_and_has_no_way_to_the_robot():
    driver = Driver(DOMAIN + 1, dry_run=True)
    try:
        driver.say(True)
        driver.until_state(HandoffState.EXECUTING)
        driver.until_says("output", "dry run: commands are logged and not sent")
        topic = driver.test.resolve_topic_name(ROBOT.output.topic)
        assert driver.test.get_publishers_info_by_topic(topic) == []
        assert driver.trajectories == []
        assert driver.node._handoff.tracking is None, "an arm that gets nothing follows nothing"
    finally:
        driver.close()


def test_a_gripper_with_a_controller_of_its_own(tmp_path):
    file = tmp_path / "arm.yaml"
    topic = "/gripper_controller/commands"
    file.write_text(
        "extends: ur10e_driver\n"
        f"gripper_output: {{type: forward_command, topic: {topic}, joints: [finger_joint]}}\n"
    )
    driver = Driver(DOMAIN + 3, robot=str(file))
    gripper: list[list[float]] = []
    arm: list[JointTrajectory] = []
    try:
        driver.test.create_subscription(
            Float64MultiArray, topic, lambda m: gripper.append(list(m.data)), qos.command()
        )
        driver.test.create_subscription(
            JointTrajectory, ROBOT.output.topic, arm.append, qos.command()
        )
        driver.say(True)
        driver.until_state(HandoffState.EXECUTING)
        driver.until(lambda: len(gripper) > 3 and arm, "commands of both")
        assert gripper[-1] == pytest.approx([POSTURE["finger_joint"]])
        assert tuple(arm[-1].joint_names) == NAMES[:-1]
    finally:
        driver.close()


def test_a_message_package_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "arm.yaml"
    file.write_text(
        "extends: ur10e_driver\n"
        "ready: {mode: {topic: /mode, type: no_such_msgs/msg/Mode, values: [7]}}\n"
    )
    import rclpy
    from rclpy.context import Context
    from rclpy.lifecycle import TransitionCallbackReturn

    context = Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN + 2)
    node = HandoffNode(context=context, parameter_overrides=[Parameter("robot", value=str(file))])
    try:
        assert node.trigger_configure() != TransitionCallbackReturn.SUCCESS
        assert "ready.mode.type: message package 'no_such_msgs' is not installed" in node.failure
    finally:
        node.teardown()
        node.destroy_node()
        context.try_shutdown()
