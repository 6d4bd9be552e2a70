# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node over real DDS: commands from chunks, and a named safe state for all else.

The test stands for policy and robot: it answers requests with chunks that it makes and listens to
the commands.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import rclpy
from node_rig import POSTURE, Rig, SimulatedTime, joints
from rclpy.context import Context
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from phyai_ros.control.chunk import Chunk
from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.diagnostics import ERROR, WARN
from phyai_ros.nodes.handoff_node import HandoffNode
from phyai_ros.nodes.lifecycle import NodeFailed

DOMAIN = 32  # and the next one
NAMES = tuple(POSTURE)
START = np.array(list(POSTURE.values()))
WRIST = np.array([0, 0, 0, 0, 0, 0.02, 0])
PAN = np.array([0.4, 0, 0, 0, 0, 0, 0])
HORIZON, STEP = 16, 0.05


def still(elapsed: float) -> np.ndarray:
    """A chunk that stands at START, a little off in the wrist: [HORIZON, joints]."""
    return np.tile(START + WRIST, (HORIZON, 1))


class Robot(Rig):
    """answer: makes the positions of a chunk; None: requests are not answered."""

    def __init__(self, domain: int = DOMAIN, **parameters) -> None:
        self.states: list[HandoffState] = []
        self.commands: list[np.ndarray] = []
        self.requests: list[InferenceRequest] = []
        self.answer: Callable[[float], np.ndarray] | None = still
        self.names = NAMES
        self.posture: dict[str, float] = dict(POSTURE)
        super().__init__(
            HandoffNode,
            domain,
            **{
                "request_timeout": 0.3,
                "joint_state_max_age": 0.3,
                "realtime_priority": 0,  # the test's own threads live in this process
                **parameters,
            },
        )
        listen, make = self.test.create_subscription, self.test.create_publisher
        listen(HandoffState, "phyai/handoff_state", self.states.append, qos.handoff_state())
        listen(InferenceRequest, "phyai/request", self._on_request, qos.request())
        self._chunks = make(ActionChunk, "phyai/chunk", qos.chunk())
        self._joints = make(JointState, "/joint_states", qos.joint_states())
        self.instructions = make(String, "/instruction", qos.instruction())
        self.test.create_timer(0.02, self._on_timer)
        self.listen_to_commands()

    def listen_to_commands(self) -> None:
        self._command_subscription = self.test.create_subscription(
            Float64MultiArray,
            "/forward_position_controller/commands",
            lambda message: self.commands.append(np.array(message.data)),
            100,  # every one of them, however busy the machine is
        )

    def stop_listening(self) -> None:
        self.test.destroy_subscription(self._command_subscription)

    def _on_timer(self) -> None:
        message = joints(self.posture)
        message.header.stamp = self.test.get_clock().now().to_msg()
        self._joints.publish(message)

    def _on_request(self, message: InferenceRequest) -> None:
        self.requests.append(message)
        if self.answer is not None:
            self.send(message, self.answer(0.0))

    def send(self, request: InferenceRequest, positions: np.ndarray, **changes) -> None:
        stamp = convert.ns_to_seconds(self.test.get_clock().now().nanoseconds)
        fields = {
            "request_id": request.request_id,
            "epoch": request.epoch,
            "stamp": stamp,
            "joint_names": self.names,
            "step": STEP,
            "positions": positions,
            **changes,
        }
        self._chunks.publish(convert.fill_chunk(ActionChunk(), Chunk(**fields), {"solver": 0.01}))

    @property
    def state(self) -> HandoffState:
        return self.states[-1] if self.states else HandoffState(reason="nothing yet")

    def until_state(self, state: int, reason: str = "") -> None:
        def reached() -> bool:
            return self.state.state == state and reason in self.state.reason

        self.until(reached, f"state {state} {reason!r}, not {self.state.state} {self.state.reason}")

    def call(self, name: str) -> Trigger.Response:
        client = self.test.create_client(Trigger, f"handoff_node/{name}")
        self.until(client.service_is_ready, f"service {name}")
        future = client.call_async(Trigger.Request())
        self.until(future.done, f"answer of {name}")
        self.test.destroy_client(client)
        return future.result()


@pytest.fixture(scope="module")
def shared():
    robot = Robot(instruction="reach the red block")
    yield robot
    robot.close()


@pytest.fixture
def robot(shared):
    """The shared node, reset and executing good chunks of the default kind."""
    shared.answer, shared.names, shared.posture = still, NAMES, dict(POSTURE)
    assert shared.call("reset").success
    shared.until_state(HandoffState.EXECUTING)
    return shared


def test_a_fresh_command_a_tick_in_the_controllers_order(robot):
    before = len(robot.commands)
    robot.until(lambda: len(robot.commands) > before + 5, "commands")
    np.testing.assert_allclose(robot.commands[-1], still(0)[0], atol=1e-9)
    assert robot.state.reason == "executing"
    assert 0 <= robot.state.index < HORIZON
    assert 0 < robot.state.action_age < 5


def test_requests_carry_what_is_left_and_the_instruction(robot):
    robot.until(lambda: robot.requests and robot.requests[-1].leftover, "a request with leftover")
    request = robot.requests[-1]
    assert tuple(request.joint_names) == NAMES
    assert len(request.leftover) % len(NAMES) == 0
    assert request.instruction == "reach the red block"


def test_the_seventh_stage_is_measured_once_a_chunk(robot):
    robot.until(
        lambda: sum(not math.isnan(s.deliver) for s in robot.states[-60:]) > 0, "a deliver time"
    )
    first_ticks = [s for s in robot.states if not math.isnan(s.deliver)]
    assert all(s.deliver >= 0 for s in first_ticks)
    ids = [s.request_id for s in first_ticks]
    assert len(ids) == len(set(ids))


def test_columns_are_found_by_name(robot):
    robot.names = NAMES[::-1]
    robot.answer = lambda elapsed: still(elapsed)[:, ::-1]
    before = len(robot.requests)
    robot.until(lambda: len(robot.requests) > before + 1, "two more requests")
    robot.until_state(HandoffState.EXECUTING)
    np.testing.assert_allclose(robot.commands[-1], still(0)[0], atol=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_chunk_with_a_value_that_is_no_number_never_moves_the_arm(robot, value):
    def poisoned(elapsed: float) -> np.ndarray:
        rows = still(elapsed) + 0.1
        rows[7, 2] = value
        return rows

    robot.answer = poisoned
    robot.until_says("handoff", "row 7, joint elbow_joint")
    robot.until_state(HandoffState.FAULT, "unusable chunks in a row")
    assert max(np.abs(c - START).max() for c in robot.commands[-40:]) < 0.05


@pytest.mark.parametrize(
    ("names", "columns", "says"),
    [
        (NAMES[:6], slice(0, 6), "missing ['finger_joint']"),
        ((*NAMES[:6], "jaw_joint"), slice(0, 7), "unknown ['jaw_joint']"),
    ],
)
def test_a_chunk_for_other_joints_is_refused_by_name(robot, names, columns, says):
    robot.names = names
    robot.answer = lambda elapsed: still(elapsed)[:, columns]
    robot.until_says("handoff", says)


def test_a_policy_that_falls_silent_and_comes_back(robot):
    robot.answer = None
    robot.until_state(HandoffState.HOLDING, "ran out")
    robot.until_state(HandoffState.HOLDING, "requests are unanswered")
    assert robot.state.starved_ticks > 0
    first, since = len(robot.states), len(robot.requests)
    robot.until(lambda: len(robot.requests) > since + 2, "three more requests")
    assert len({s.reason for s in robot.states[first:]}) == 1, "a count would be a log line each"
    robot.until(lambda: unanswered(robot) > 2, "their number in diagnostics")
    standing = robot.commands[-1]
    before = len(robot.commands)
    robot.until(lambda: len(robot.commands) > before + 3, "commands that hold")
    np.testing.assert_allclose(robot.commands[-1], standing)
    robot.answer = still
    robot.until_state(HandoffState.EXECUTING)


def unanswered(robot):
    status = robot.diagnostics["handoff"]
    return next(int(v.value) for v in status.values if v.key == "requests unanswered in a row")


def test_reset_after_the_arm_was_moved_commands_nothing_before_a_chunk(robot):
    """As at each episode of a simulator, and of a person who puts the arm back."""
    robot.answer = None
    assert robot.call("hold").success
    robot.until_state(HandoffState.HOLDING)
    robot.posture["shoulder_pan_joint"] += 0.6
    robot.until_state(HandoffState.HOLDING, "shoulder_pan_joint was moved")
    assert robot.call("reset").success
    robot.until_state(HandoffState.WAITING, "reset")
    time.sleep(0.2)  # what was on its way has come
    robot.commands.clear()
    ticks = len(robot.states)
    robot.until(lambda: len(robot.states) > ticks + 5, "ticks")
    assert robot.commands == []
    robot.answer = still
    robot.until_state(HandoffState.EXECUTING)
    path = np.array(robot.commands)[:, 0]
    assert path[0] == pytest.approx(START[0] + 0.6, abs=0.05)
    assert np.abs(np.diff(path)).max() < 2.094395102 * STEP + 1e-9


def test_a_chunk_of_an_old_epoch_is_dropped(robot):
    old = robot.requests[-1]
    robot.answer = None
    assert robot.call("reset").success
    dropped = robot.state.dropped_chunks
    robot.send(old, still(0))
    robot.until(lambda: robot.state.dropped_chunks > dropped, "the drop")
    robot.until_says("handoff", "old_epoch")


def test_hold_and_resume(robot):
    assert robot.call("hold").success
    robot.until_state(HandoffState.HOLDING, "held by service")
    epoch = robot.state.epoch
    answer = robot.call("resume")
    assert answer.success
    robot.until_state(HandoffState.EXECUTING)
    assert robot.state.epoch == epoch + 1


def test_a_new_instruction_begins_a_new_epoch_and_an_empty_one_does_not(robot):
    epoch = robot.state.epoch
    robot.instructions.publish(String(data="  "))
    robot.until_says("instruction", "instruction is empty")
    assert robot.state.epoch == epoch
    robot.instructions.publish(String(data="reach the  blue block"))
    robot.until(lambda: robot.state.epoch == epoch + 1, "a new epoch")
    robot.until(
        lambda: robot.requests[-1].instruction == "reach the blue block", "a request for it"
    )
    robot.instructions.publish(String(data="reach the red block"))
    robot.until(lambda: robot.state.epoch == epoch + 2, "the old instruction again")


def test_nobody_listens_to_the_commands(robot):
    robot.stop_listening()
    robot.until_says("output", "no subscriber on /forward_position_controller/commands")
    robot.listen_to_commands()
    robot.until_says("output", "ok")


COMMANDS = "/forward_position_controller/commands"


@pytest.mark.parametrize(
    ("kind", "profile", "says"),
    [
        (
            JointTrajectory,
            qos.command(),
            "expects trajectory_msgs/msg/JointTrajectory, this node sends std_msgs/msg/Float64Mult",
        ),
        (
            Float64MultiArray,
            qos.robot_status(),
            "has incompatible QoS, durability: offered VOLATILE, wanted TRANSIENT_LOCAL",
        ),
    ],
)
def test_a_controller_that_cannot_hear_its_commands_is_named(robot, kind, profile, says):
    """Also where somebody else hears them: a recorder, a plot."""
    # A participant of its own: within one, DDS refuses a second type on a topic.
    context = Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN)
    controller = rclpy.create_node("controller", context=context)
    controller.create_subscription(kind, COMMANDS, lambda message: None, profile)
    robot.until_says("output", f"subscriber /controller on {COMMANDS} {says}")
    controller.destroy_node()
    context.try_shutdown()
    robot.until_says("output", "ok")


def test_another_masters_command_stops_the_arm_until_a_reset(robot):
    """It falls silent; who still sends is heard again after a reset."""
    other = robot.test.create_publisher(Float64MultiArray, COMMANDS, qos.command())
    command = Float64MultiArray(data=list(START + PAN))

    def until_fault():
        robot.until(
            lambda: robot.state.state == HandoffState.FAULT,
            f"FAULT, not {robot.state.reason}",
            lambda: other.publish(command),
        )

    until_fault()
    assert "/test sends commands on" in robot.state.reason
    robot.until_says("publishers", "/test sends commands on")
    assert robot.diagnostics["publishers"].level == ERROR
    own = [c for c in robot.commands if not np.array_equal(c, command.data)]
    ticks = robot.state.ticks
    robot.until(lambda: robot.state.ticks > ticks + 20, "ticks of the fault")
    later = [c for c in robot.commands if not np.array_equal(c, command.data)]
    assert len(later) == len(own), "a command in a fault"
    robot.call("reset")
    until_fault()
    robot.test.destroy_publisher(other)
    robot.call("reset")
    robot.until_state(HandoffState.EXECUTING)
    robot.until_says("publishers", "ok")


def test_a_second_master_a_second_policy_and_a_second_joint_driver_are_named(robot):
    make = robot.test.create_publisher
    for topic, kind, says, level in (
        (COMMANDS, Float64MultiArray, "expected this node alone", WARN),
        ("/phyai/chunk", ActionChunk, "more than one policy answers", ERROR),
        ("/joint_states", JointState, "the same joints", WARN),
    ):
        publisher = make(kind, topic, 1)

        message = joints() if kind is JointState else kind()

        def speak(publisher=publisher, message=message, topic=topic):
            if topic != COMMANDS:  # a silent one might be a killed one that is still listed
                publisher.publish(message)

        robot.until_says("publishers", f"2 publishers on {topic}", speak)
        assert says in robot.diagnostics["publishers"].message
        assert robot.diagnostics["publishers"].level == level
        assert robot.says("publishers", f"{topic}=2")
        robot.test.destroy_publisher(publisher)
        robot.until_says("publishers", "ok")


def test_a_policy_that_was_told_another_method_is_named(robot):
    publisher = robot.test.create_publisher(String, "phyai/policy_handoff", qos.policy_handoff())
    publisher.publish(String(data="rtc_identity"))
    robot.until_says("handoff method", "handoff is 'replace' here and 'rtc_identity' in the policy")
    assert robot.diagnostics["handoff method"].level == WARN
    publisher.publish(String(data="blend"))  # asks no more of the policy than this one
    robot.until_says("handoff method", "ok")
    robot.test.destroy_publisher(publisher)


class TestStart:
    """A node of its own: only the first command after a start ramps."""

    @pytest.fixture
    def robot(self):
        robot = Robot(DOMAIN + 1, instruction="reach the red block")
        yield robot
        robot.close()

    def test_nothing_moves_until_the_joints_are_known(self, robot):
        finger = robot.posture.pop("finger_joint")
        robot.until_state(HandoffState.WAITING, "no position yet of finger_joint")
        robot.posture["finger_joint"] = math.nan
        robot.until_state(HandoffState.WAITING, "not a number: finger_joint")
        assert robot.commands == []
        robot.posture["finger_joint"] = finger
        robot.until_state(HandoffState.EXECUTING)

    def test_the_first_command_ramps_from_the_measured_state(self, robot):
        robot.answer = lambda elapsed: still(elapsed) + PAN
        robot.until_state(HandoffState.EXECUTING)
        robot.until(lambda: robot.commands[-1][0] > START[0] + 0.4 - 1e-6, "the chunk's position")
        path = np.array(robot.commands)[:, 0]
        assert abs(path[0] - START[0]) < 0.05
        assert np.abs(np.diff(path)).max() < 2.094395102 * STEP + 1e-9
        assert HandoffState.RAMPING in {s.state for s in robot.states}

    def test_deactivated_it_stops_and_reactivated_it_goes_on(self, robot):
        robot.until_state(HandoffState.EXECUTING)
        robot.transition("deactivate")
        assert robot.node._pacer is None
        before = len(robot.commands)
        answer = robot.call("reset")
        assert not answer.success
        assert "is the node active?" in answer.message
        assert len(robot.commands) <= before + 1  # one may have been under way
        robot.transition("activate")
        robot.until_state(HandoffState.EXECUTING)
        assert len(robot.test.get_publishers_info_by_topic("/diagnostics")) == 1

    def test_a_hold_by_service_outlives_a_deactivation(self, robot):
        robot.until_state(HandoffState.EXECUTING)
        assert robot.call("hold").success
        robot.transition("deactivate", "activate")
        robot.states.clear()
        robot.until(lambda: len(robot.states) > 10, "ticks")
        assert {s.state for s in robot.states} == {HandoffState.HOLDING}
        assert "held by service" in robot.state.reason
        assert robot.call("resume").success
        robot.until_state(HandoffState.EXECUTING)

    def test_an_arm_moved_while_the_node_was_inactive_is_not_pulled_back(self, robot):
        robot.until_state(HandoffState.EXECUTING)
        robot.transition("deactivate")
        robot.posture["shoulder_pan_joint"] += 1.0
        robot.until(
            lambda: robot.node._measured()[0] == robot.posture["shoulder_pan_joint"], "the move"
        )
        time.sleep(0.2)  # commands of the time before are over
        robot.commands.clear()
        robot.transition("activate")
        robot.until(lambda: robot.commands, "a command")
        assert abs(robot.commands[0][0] - robot.posture["shoulder_pan_joint"]) < 0.05

    def test_after_a_standstill_of_the_process_it_starts_from_where_the_arm_is(self, robot):
        robot.until_state(HandoffState.EXECUTING)
        awake = threading.Event()

        def stand_still(now: float) -> None:
            time.sleep(1.5)  # longer than a clock jump
            awake.set()

        robot.node._loop.post(stand_still)
        robot.posture["shoulder_pan_joint"] += 0.08  # less than the tracking tolerance
        assert awake.wait(20)

        def from_there() -> bool:
            return any(c[0] > START[0] + 0.05 for c in list(robot.commands))

        robot.until(from_there, "a command near the measured posture, not the last one")

    def test_cleaned_up_and_configured_again_it_goes_on(self, robot):
        robot.until_state(HandoffState.EXECUTING)
        robot.transition("deactivate", "cleanup", "configure", "activate")
        robot.states.clear()
        robot.until_state(HandoffState.EXECUTING)
        for topic in ("/diagnostics", "/phyai/request", "/forward_position_controller/commands"):
            assert len(robot.test.get_publishers_info_by_topic(topic)) == 1

    def test_shut_down_while_it_moves_it_brakes(self, robot):
        far = np.linspace(0.0, 1.2, HORIZON)[:, None] * np.eye(7)[0]  # 1.6 rad/s
        robot.until_state(HandoffState.EXECUTING)
        robot.answer = lambda elapsed: START + far
        robot.until(lambda: robot.node._handoff.guard.velocity[0] > 1.0, "motion")
        robot.transition("shutdown")
        robot.until(lambda: robot.commands[-1][0] == robot.commands[-2][0], "rest")
        speeds = np.diff(np.array(robot.commands)[:, 0]) / STEP
        assert speeds.max() > 1.0
        assert np.abs(np.diff(speeds)).max() <= 8.0 * STEP + 1e-6

    # Its executor ends of it, as meant.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_an_exception_in_the_control_loop_brakes_says_fault_and_ends_the_node(self, robot):
        far = np.linspace(0.0, 1.2, HORIZON)[:, None] * np.eye(7)[0]  # 1.6 rad/s
        robot.until_state(HandoffState.EXECUTING)
        robot.answer = lambda elapsed: START + far
        robot.until(lambda: robot.node._handoff.guard.velocity[0] > 1.0, "motion")

        def broken(now: float) -> None:
            raise ZeroDivisionError

        robot.node._loop.post(broken)
        robot.until_state(HandoffState.FAULT, "ZeroDivisionError")
        robot.until_says("handoff", "FAULT: control loop: ZeroDivisionError()")
        robot.until(lambda: robot.node.failure, "the end of the control loop")
        speeds = np.diff(np.array(robot.commands)[:, 0]) / STEP
        assert speeds.max() > 1.0
        assert np.abs(np.diff(speeds)).max() <= 8.0 * STEP + 1e-6
        assert abs(speeds[-1]) <= 8.0 * STEP + 1e-6
        with pytest.raises(NodeFailed):  # which ends the process with status 1
            robot.node._watch()

    def test_a_service_that_was_refused_does_nothing_later(self, robot):
        robot.until_state(HandoffState.EXECUTING)
        robot.transition("deactivate")
        epoch = robot.node._handoff.epoch
        for _ in range(3):
            assert not robot.call("reset").success
        robot.transition("activate")
        robot.until_state(HandoffState.EXECUTING)
        assert robot.state.epoch <= epoch + 2  # of the resume, and of a clock gone on meanwhile


@pytest.fixture
def simulated():
    robot = Robot(DOMAIN + 1, instruction="reach the red block", use_sim_time=True)
    clock = SimulatedTime(robot)
    yield robot, clock
    clock.stop()
    robot.close()


def test_a_clock_that_jumps_begins_a_new_epoch_and_stops_nothing_for_good(simulated):
    robot, clock = simulated
    robot.until_state(HandoffState.EXECUTING)
    for jump in (-500.0, 5000.0):
        epoch = robot.state.epoch
        clock.jump(jump)
        robot.until(lambda epoch=epoch: robot.state.epoch > epoch, f"a new epoch after {jump} s")
        assert np.isfinite(robot.commands[-1]).all()
        robot.until_state(HandoffState.EXECUTING)
    assert any("the clock jumped" in s.reason for s in robot.states)
    # On a busy machine /clock itself may come late enough to count as one more.
    robot.until(lambda: robot.value("handoff", "clock jumps") >= 2, "both jumps are counted")


def test_a_clock_that_stands_still_holds_the_last_command(simulated):
    robot, clock = simulated
    robot.until_state(HandoffState.EXECUTING)
    clock.stop()
    counts = [-1]

    def at_rest() -> bool:
        time.sleep(0.3)
        counts.append(len(robot.states))
        return counts[-1] == counts[-2]

    robot.until(at_rest, "no tick while time stands still")
    robot.until_says("control timer", "the node's clock stands still")


def test_a_policy_that_comes_is_asked_at_once():
    """Not when the question that it never heard has been waited for in vain."""
    robot = Robot(DOMAIN + 1, request_timeout=600.0)
    try:
        robot.answer = None
        robot.until(lambda: robot.requests, "a question that nobody hears")
        asked = len(robot.requests)
        robot.answer = still
        policy = robot.test.create_publisher(ActionChunk, "/phyai/chunk", qos.chunk())
        robot.until(lambda: len(robot.requests) > asked, "the question again")
        robot.until_state(HandoffState.EXECUTING)
        robot.test.destroy_publisher(policy)
    finally:
        robot.close()
