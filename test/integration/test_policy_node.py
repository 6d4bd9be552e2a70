# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""policy_node with the embedded checkpoint over real DDS: the normal path and every bad input that
can reach it. Each bad input ends in a named refusal, and the next good observation is answered."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import time

import numpy as np
import pytest
import rclpy
import yaml
from node_rig import POSTURE, Rig, SimulatedTime, image, joints, jpeg, picture
from rclpy.context import Context
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from phyai_ros import robots
from phyai_ros.engine.frames import frame_of
from phyai_ros.msg import ActionChunk, InferenceRequest
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.policy_node import PolicyNode
from phyai_ros.robots import config_files

DOMAIN = 30  # and the next one


@dataclasses.dataclass
class Scene:
    """What the robot publishes in one moment; None: nothing."""

    scene: Image | None = None
    wrist: CompressedImage | None = None
    joints: tuple[JointState, ...] = ()
    gripper: JointState | None = None
    age: float = 0.0
    stamp: int | None = None
    """Nanoseconds for every stamp; None: the clock less ``age`` seconds."""


class Cell(Rig):
    """A robot with a raw scene camera of one size and a JPEG wrist camera."""

    def __init__(self, robot_file, domain: int = DOMAIN, **parameters) -> None:
        super().__init__(
            PolicyNode,
            domain,
            **parameters,
            robot=str(robot_file),
            observation_timeout=0.4,
            instruction="reach the red block",
        )
        self.chunks: dict[int, ActionChunk] = {}
        self.test.create_subscription(ActionChunk, "phyai/chunk", self._on_chunk, qos.chunk())
        make = self.test.create_publisher
        self._scene = make(Image, "/camera/scene/image_raw", qos_profile_sensor_data)
        self._wrist = make(
            CompressedImage, "/camera/wrist/image_raw/compressed", qos_profile_sensor_data
        )
        self._joints = make(JointState, "/joint_states", qos.joint_states())
        self._gripper = make(JointState, "/gripper/joint_states", qos.joint_states())
        self._requests = make(InferenceRequest, "phyai/request", qos.request())
        self._next = 1
        self._asked = -math.inf

    def _on_chunk(self, message: ActionChunk) -> None:
        self.chunks[message.request_id] = message

    def publish(self, scene: Scene) -> None:
        now = self.test.get_clock().now().nanoseconds
        stamp = now - round(scene.age * 1e9) if scene.stamp is None else scene.stamp
        pairs = [(self._joints, message) for message in scene.joints]
        pairs += [(self._gripper, scene.gripper)]
        pairs += [(self._scene, scene.scene), (self._wrist, scene.wrist)]
        for publisher, message in pairs:
            if message is not None:
                convert.set_time(message.header.stamp, stamp)
                publisher.publish(message)

    def ask(self, **fields) -> int:
        message = InferenceRequest(request_id=self._next, epoch=7, **fields)
        message.header.stamp = self.test.get_clock().now().to_msg()
        self._requests.publish(message)
        self._next += 1
        return message.request_id

    def ask_now_and_then(self, **fields) -> None:
        """Ask again where an answer is overdue, as the handoff does."""
        if time.monotonic() - self._asked > 1.0:
            self._asked = time.monotonic()
            self.ask(**fields)

    def answer(self, feed=None, **fields) -> ActionChunk:
        """Ask, and publish ``feed()`` until a chunk comes."""
        self._asked, first = -math.inf, self._next

        def found() -> list[ActionChunk]:
            return [c for request, c in list(self.chunks.items()) if request >= first]

        def meanwhile() -> None:
            self.ask_now_and_then(**fields)
            self.publish((feed or good)())

        self.until(found, "a chunk", meanwhile)
        return found()[0]

    def _let_all_arrive(self) -> None:
        """What was published before must not come after what is forgotten is forgotten."""
        streams, before = self.node._source.aligner._all(), None
        while (received := [stream.received for stream in streams]) != before:
            before = received
            time.sleep(0.3)

    def refusal(self, text: str, feed, *, forget=True) -> None:
        """Ask and publish ``feed()`` until diagnostics name the reason; then recover.
        forget: what came before is forgotten first."""
        if forget:
            self._let_all_arrive()
            self.node._source.clear()
        self._asked, answered = -math.inf, len(self.chunks)

        def meanwhile() -> None:
            self.ask_now_and_then()
            self.publish(feed())

        self.until_says("inference", text, meanwhile)
        if forget:  # else the last good samples may still have answered once
            assert len(self.chunks) == answered
        self.answer()
        self.until_says("inference", "ok")


def good(**changes) -> Scene:
    return dataclasses.replace(Scene(image(picture()), jpeg(picture()), (joints(),)), **changes)


@pytest.fixture(scope="module")
def robot_file(tmp_path_factory):
    robot = yaml.safe_load(config_files.find("robots", "ur10e").read_text())
    robot["cameras"]["scene"]["size"] = [240, 320]
    robot["cameras"]["wrist"]["topic"] += "/compressed"
    robot["joint_state_topics"].append("/gripper/joint_states")
    path = tmp_path_factory.mktemp("robot") / "cell.yaml"
    path.write_text(yaml.safe_dump(robot, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def cell(robot_file):
    cell = Cell(robot_file)
    yield cell
    cell.close()


def first_row(chunk: ActionChunk) -> dict[str, float]:
    return dict(zip(chunk.joint_names, chunk.positions[: len(chunk.joint_names)], strict=True))


def assert_near_posture(chunk: ActionChunk) -> None:
    """The first row continues from where the arm is: true only if every joint was read by name."""
    row = first_row(chunk)
    assert row == pytest.approx(POSTURE, abs=0.2)


def test_a_chunk_comes_whole(cell):
    chunk = cell.answer()
    robot = robots.load("ur10e")
    assert (chunk.epoch, chunk.horizon, chunk.step.nanosec) == (7, 16, 50_000_000)
    assert tuple(chunk.joint_names) == robot.joint_names
    assert chunk.instruction == "reach the red block"
    assert "gr00t" in chunk.policy
    stages = convert.stages_from_message(chunk.stages)
    assert set(stages) == {"wait", "preprocess", "vision", "prefix", "solver", "convert"}
    assert all(seconds >= 0 for seconds in stages.values())
    assert np.isfinite(chunk.positions).all()
    assert_near_posture(chunk)


def test_diagnostics_tell_latency_and_ages(cell):
    cell.answer()
    cell.until_says("inference", "ok")
    values = {v.key: v.value for v in cell.diagnostics["inference"].values}
    assert 0 < float(values["latency p50 s"]) <= float(values["latency p99 s"])
    assert {"wait p99 s", "stage vision s", "dropped requests"} <= set(values)
    ages = {v.key for v in cell.diagnostics["observation"].values}
    assert {"age scene s", "age wrist s", "age elbow_joint s"} <= ages


def test_the_observation_is_never_older_than_asked_for(cell):
    chunk = cell.answer()
    again = cell.ask()
    asked = cell.test.get_clock().now().nanoseconds
    cell.until(lambda: again in cell.chunks, "a chunk", lambda: cell.publish(good()))
    assert convert.stamp_to_ns(cell.chunks[again].header.stamp) > convert.stamp_to_ns(
        chunk.header.stamp
    )
    assert convert.stamp_to_ns(cell.chunks[again].header.stamp) > asked - 50_000_000


def test_a_request_brings_its_own_instruction(cell):
    assert cell.answer(instruction="reach the blue block").instruction == "reach the blue block"


@pytest.mark.parametrize("encoding", ["bgr8", "rgba8", "bgra8", "mono8"])
@pytest.mark.parametrize("padding", [0, 7])
def test_other_encodings_and_padded_rows_are_fine(cell, encoding, padding):
    assert_near_posture(cell.answer(lambda: good(scene=image(picture(), encoding, padding))))


def test_images_come_to_lie_where_the_engine_wants_them(cell):
    """On a GPU it reserves frames at configure; here the test does."""
    cameras = cell.node._source.aligner._cameras
    cell.node._policy.frames.reserve(240, 320, 24)
    cell.until(
        lambda: all(b.samples and frame_of(b.samples[-1]) is not None for b in cameras.values()),
        "images in frames",
        lambda: cell.publish(good()),
    )
    assert_near_posture(cell.answer())


def test_sixteen_bit_images_are_refused_by_encoding(cell):
    cell.refusal("scene: never_came", lambda: good(scene=image(picture(), "16UC1")))


def test_what_was_wrong_with_an_image_is_in_its_stream_diagnostics(cell):
    cell.until_says(
        "camera scene",
        "encoding '16UC1' is not supported; supported: rgb8, bgr8",
        lambda: cell.publish(good(scene=image(picture(), "16UC1"))),
    )
    cell.until_says(
        "camera scene",
        "image is 160x120, the robot description says camera 'scene' is 320x240",
        lambda: cell.publish(good(scene=image(picture()[::2, ::2]))),
    )
    cell.until_says("camera scene", "ok", lambda: cell.publish(good()))


def test_bytes_that_are_no_jpeg(cell):
    def feed() -> Scene:
        broken = jpeg(picture())
        broken.data = broken.data[:50]
        return good(wrist=broken)

    cell.until_says("camera wrist", "do not decode as jpeg", lambda: cell.publish(feed()))
    cell.refusal("wrist: never_came", feed)


def test_missing_camera(cell):
    cell.refusal("wrist: never_came", lambda: good(wrist=None))


def test_camera_that_stops(cell):
    cell.answer()
    cell.refusal("wrist: too_old", lambda: good(wrist=None), forget=False)


def test_camera_that_repeats_its_stamp(cell):
    cell.node._source.clear()
    stamp = cell.test.get_clock().now().nanoseconds

    def meanwhile() -> None:
        cell.ask_now_and_then()
        cell.publish(good(wrist=None))
        cell.publish(Scene(wrist=jpeg(picture()), stamp=stamp))

    cell.until_says("inference", "wrist: frozen", meanwhile)
    cell.answer()


def test_camera_whose_pixels_stand_still_while_the_arm_moves(cell):
    still = image(picture())
    angle = [0.0]

    def feed() -> Scene:
        angle[0] += 0.02
        return good(scene=still, joints=(joints({**POSTURE, "shoulder_pan_joint": angle[0]}),))

    cell.node._source.clear()

    def meanwhile() -> None:
        cell.ask_now_and_then()
        cell.publish(feed())

    cell.until_says("inference", "scene: frozen: pixels unchanged", meanwhile)
    cell.answer()


def test_shuffled_joint_names(cell):
    names = list(POSTURE)[::-1]
    chunk = cell.answer(lambda: good(joints=(joints({n: POSTURE[n] for n in names}),)))
    assert_near_posture(chunk)


def test_extra_joint_and_joints_split_over_messages(cell):
    arm, finger = split_posture()
    extra = joints({**finger, "unrelated_joint": 9.0})
    assert_near_posture(cell.answer(lambda: good(joints=(extra, joints(arm)))))


def test_joints_split_over_two_publishers(cell):
    arm, finger = split_posture()
    cell.node._source.clear()
    chunk = cell.answer(lambda: good(joints=(joints(arm),), gripper=joints(finger)))
    assert_near_posture(chunk)


def split_posture() -> tuple[dict[str, float], dict[str, float]]:
    arm = dict(POSTURE)
    return arm, {"finger_joint": arm.pop("finger_joint")}


def test_missing_joint(cell):
    part = {n: p for n, p in POSTURE.items() if n != "elbow_joint"}
    cell.refusal("elbow_joint: joint_missing", lambda: good(joints=(joints(part),)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_state_that_is_no_number(cell, value):
    bad = {**POSTURE, "wrist_2_joint": value}
    cell.refusal("wrist_2_joint: non_finite", lambda: good(joints=(joints(bad),)))


def test_joint_states_that_stop(cell):
    cell.answer()
    cell.refusal("shoulder_pan_joint: too_old", lambda: good(joints=()), forget=False)


def test_zero_stamps(cell):
    cell.refusal("scene: zero_stamp", lambda: good(stamp=0))


@pytest.mark.parametrize(("age", "reason"), [(3.0, "too_old"), (-3.0, "future_stamp")])
def test_stamps_of_another_clock(cell, age, reason):
    cell.refusal(f"scene: {reason}", lambda: good(age=age))


def test_stamps_that_jump_back_are_followed_after_the_buffers_are_cleared(cell):
    """An arm's driver whose clock is set back: the aligner drops what it had and goes on."""
    back = cell.node._source.aligner.counters.time_went_back
    cell.answer(lambda: good(age=-0.04))  # the newest stamp is ahead of what comes next
    cell.publish(good(age=0.15))
    cell.until(lambda: cell.node._source.aligner.counters.time_went_back > back, "the jump noticed")
    cell.answer()


def test_a_joint_state_that_contradicts_itself(cell):
    broken = JointState(name=["elbow_joint", "wrist_1_joint"], position=[1.0])
    cell.until_says(
        "joint states /joint_states",
        "2 joint names but 1 positions",
        lambda: cell.publish(Scene(joints=(broken,))),
    )
    cell.answer()


@pytest.mark.parametrize(
    ("text", "says"), [("", "instruction is empty"), ("   ", "empty"), ("word " * 900, "longer")]
)
def test_instructions_that_say_nothing_or_too_much(cell, text, says):
    publisher = cell.test.create_publisher(String, "/instruction", qos.instruction())
    cell.until_says("instruction", says, lambda: publisher.publish(String(data=text)))
    assert cell.answer().instruction == "reach the red block"
    cell.test.destroy_publisher(publisher)


@pytest.mark.parametrize(
    ("kind", "topic", "part", "profile", "says"),
    [
        (
            String,
            "/instruction",
            "instruction",
            QoSProfile(depth=1, durability=DurabilityPolicy.VOLATILE),
            "has incompatible QoS, durability: offered VOLATILE",
        ),
        (
            InferenceRequest,
            "/phyai/request",
            "requests",
            QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT),
            "has incompatible QoS, reliability: offered BEST_EFFORT",
        ),
        (Image, "/instruction", "instruction", qos.instruction(), "sends sensor_msgs/msg/Image"),
    ],
)
def test_a_publisher_that_cannot_be_heard_is_named(cell, kind, topic, part, profile, says):
    # A participant of its own: within one, DDS refuses a second type on a topic.
    context = Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN)
    stranger = rclpy.create_node("stranger", context=context)
    stranger.create_publisher(kind, topic, profile)
    cell.until_says(part, f"publisher /stranger on {topic} {says}")
    stranger.destroy_node()
    context.try_shutdown()


def test_no_publisher_is_told_apart_from_no_message(cell):
    cell.until_says("instruction", "no publisher on /instruction")
    publisher = cell.test.create_publisher(String, "/instruction", qos.instruction())
    # Earlier tests sent instructions: only a stream that never had one can say so.
    cell.node._instructions.received = 0
    cell.node._instructions._refusals.trouble.set(None)
    cell.until_says("instruction", "1 publisher(s) on /instruction, but no message yet")
    cell.test.destroy_publisher(publisher)


def test_it_says_which_handoff_its_chunks_are_made_for_also_to_whoever_comes_late(cell):
    heard: list[str] = []
    subscription = cell.test.create_subscription(
        String, "phyai/policy_handoff", lambda m: heard.append(m.data), qos.policy_handoff()
    )
    cell.until(lambda: heard, "the policy's handoff method")
    assert heard == ["replace"]
    cell.test.destroy_subscription(subscription)


def test_a_request_of_another_shape_is_refused(cell):
    cell.until_says(
        "requests",
        "leftover holds 3 values, no multiple of 2 joints",
        lambda: cell.ask(joint_names=["a", "b"], leftover=[1.0, 2.0, 3.0]),
    )
    cell.answer()


def test_a_clock_that_jumps_clears_the_buffers(robot_file):
    cell = Cell(robot_file, DOMAIN + 1, use_sim_time=True)
    clock = SimulatedTime(cell)
    try:
        cell.answer()
        for jump in (-500.0, 5000.0):
            clock.jump(jump)
            cell.until(
                lambda: abs(cell.node.get_clock().now().nanoseconds / 1e9 - clock.now()) < 1.0,
                "the node's clock after the jump",
            )
            stamp = cell.answer().header.stamp
            assert abs(convert.stamp_to_ns(stamp) / 1e9 - clock.now()) < 30.0
    finally:
        clock.stop()
        cell.close()


@pytest.mark.parametrize(
    ("parameter", "value", "says"),
    [
        ("model", "gr0ot", "model 'gr0ot' is unknown: expected one of ["),
        ("robot", "ur9e", "robot 'ur9e' is unknown: expected one of ["),
        ("robot", "/nowhere/robot.yaml", "'/nowhere/robot.yaml' does not exist; by name there are"),
        ("checkpoint", "./nowhere", "no such directory"),
        ("embodiment", "gr1", "ur10e_sim"),
        ("device", "cuda:7", "device 'cuda:7': torch sees"),
        ("device", "tpu", "known: cpu, cuda, cuda:N"),
        (
            "precision",
            "int4",
            "'precision' is 'int4'; allowed: one of 'float32', 'bfloat16', 'fp8'",
        ),
        ("synchronizer", "exact", "allowed: one of 'aligner', 'message_filters'"),
        ("handoff", "rtc_trained", "gr00t_ur10e_small can do ['blend', 'ensemble', 'replace'"),
        ("instruction", " ", "instruction is empty"),
    ],
)
def test_what_cannot_be_configured_says_what_there_is(parameter, value, says):
    context = Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN)
    node = PolicyNode(
        context=context, parameter_overrides=[rclpy.Parameter(parameter, value=value)]
    )
    assert node.trigger_configure() != TransitionCallbackReturn.SUCCESS
    assert says in node.failure
    node.destroy_node()
    context.try_shutdown()


FILTERS = importlib.util.find_spec("message_filters") is not None


@pytest.mark.skipif(not FILTERS, reason="the ROS package message_filters is not installed")
def test_message_filters_in_front_of_the_aligner(robot_file):
    cell = Cell(robot_file, DOMAIN + 1, synchronizer="message_filters")
    try:
        assert_near_posture(cell.answer())
        # What cannot be used is reported, and does not leave the filter locked.
        cell.refusal("scene: never_came", lambda: good(scene=image(picture(), "16UC1")))
        cell.refusal("scene: never_came", lambda: good(wrist=None))
        cell.node._on_jump(-1.0)
        cell.answer()
    finally:
        cell.close()


@pytest.mark.skipif(FILTERS, reason="message_filters is installed")
def test_message_filters_where_it_is_absent_says_what_to_install():
    test_what_cannot_be_configured_says_what_there_is(
        "synchronizer", "message_filters", "apt install ros-$ROS_DISTRO-message-filters"
    )
