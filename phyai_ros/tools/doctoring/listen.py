# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Listens to every stream a robot's YAML names. It asks for so little (best effort, volatile) that
it hears what the nodes themselves may not."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import GetState
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64, Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
from phyai_ros.nodes import cdr, convert, endpoints, interbotix, qos, robot_gate
from phyai_ros.nodes.message_info import informed, sent
from phyai_ros.nodes.message_types import type_name
from phyai_ros.robots.parts import Output
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.doctoring.samples import Endpoint, Samples

NODES = ("policy_node", "handoff_node")
_ANY = QoSProfile(
    depth=50, reliability=ReliabilityPolicy.BEST_EFFORT, durability=DurabilityPolicy.VOLATILE
)
_LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
COMMANDS = {"forward_command": Float64MultiArray, "joint_trajectory": JointTrajectory}


def _command_class(output: Output) -> Any:
    """None where its package is not installed here: then nobody here can hear it."""
    if output.type in COMMANDS:
        return COMMANDS[output.type]
    try:
        return interbotix.message_class(output)
    except ValueError:
        return None


@dataclass
class Heard:
    """All that was seen. lifecycle: node -> its state's name, None: no answer, absent: no such
    node. topics, sinks: topics that somebody publishes, that somebody but this listener subscribes
    to -> their types. diagnostics: name -> (level, message)."""

    cameras: dict[str, Samples] = field(default_factory=dict)
    joints: dict[str, Samples] = field(default_factory=dict)
    ready: dict[str, Samples] = field(default_factory=dict)
    speed: Samples | None = None
    outputs: dict[str, Samples] = field(default_factory=dict)
    instruction: Samples | None = None
    requests: Samples | None = None
    chunks: Samples | None = None
    states: Samples | None = None
    lifecycle: dict[str, str | None] = field(default_factory=dict)
    topics: dict[str, list[str]] = field(default_factory=dict)
    sinks: dict[str, list[str]] = field(default_factory=dict)
    diagnostics: dict[str, tuple[int, str]] = field(default_factory=dict)
    clock: bool = False

    def streams(self) -> list[Samples]:
        """Every stream there is to report, sensors first."""
        single = (
            self.speed, self.instruction, self.requests, self.chunks, self.states,
        )  # fmt: skip
        return [
            *self.cameras.values(),
            *self.joints.values(),
            *self.ready.values(),
            *(s for s in single if s is not None),
            *self.outputs.values(),
        ]


class Listener:
    """Subscribes on construction; ``finish``, after some spinning, gives what was heard."""

    def __init__(self, node: Any, robot: Robot) -> None:
        self._node = node
        self._clock_now: float | None = None
        self._wanted: list[tuple[Samples, Any, QoSProfile | None, QoSProfile | None]] = []
        self.heard = heard = Heard()
        for role, camera in robot.cameras.items():
            compressed = camera.topic.rsplit("/", 1)[-1] == "compressed"
            heard.cameras[role] = self._listen(
                f"camera {role}",
                camera.topic,
                CompressedImage if compressed else Image,
                self._on_compressed if compressed else self._on_image,
                raw=True,
                wanted=qos.camera(),
            )
        for topic in robot.joint_state_topics:
            on_joints = partial(_on_joints, robot.joint_prefixes.get(topic, ""))
            heard.joints[topic] = self._listen(
                "joints", topic, JointState, on_joints, wanted=qos.joint_states()
            )
        for name, ready in robot.ready.items():
            kind = robot_gate.message_type(ready.type, f"{robot.source}: ready.{name}.type")
            heard.ready[name] = self._listen(
                f"robot {name}",
                ready.topic,
                kind,
                _keep(ready.field),
                mine=_LATCHED if ready.latched else _ANY,
                wanted=qos.robot_status() if ready.latched else qos.handoff_state(),
            )
        if robot.speed_scaling is not None:
            topic = robot.speed_scaling.topic
            heard.speed = self._listen(
                "robot speed", topic, Float64, _keep("data"), wanted=qos.joint_states()
            )
        heard.instruction = self._listen(
            "instruction",
            "/instruction",
            String,
            _keep("data"),
            mine=_LATCHED,
            wanted=qos.instruction(),
        )
        for name, topic, kind, keep, profile in (
            ("requests", "phyai/request", InferenceRequest, _on_newest, qos.request()),
            ("chunks", "phyai/chunk", ActionChunk, _on_newest, qos.chunk()),
            ("states", "phyai/handoff_state", HandoffState, _on_state, qos.handoff_state()),
        ):
            label = "handoff state" if name == "states" else name
            setattr(heard, name, self._listen(label, topic, kind, keep, wanted=profile))
        for output, _ in robot.outputs:
            kind = _command_class(output)
            if kind is not None:
                heard.outputs[output.topic] = self._listen(
                    "commands", output.topic, kind, _on_newest, offered=qos.command()
                )
        node.create_subscription(
            DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.diagnostics()
        )
        node.create_subscription(Clock, "/clock", self._on_clock, _ANY)
        self._asked = {name: node.create_client(GetState, f"{name}/get_state") for name in NODES}
        self._answers: dict[str, Any] = {}

    def ask(self) -> None:
        """Ask the lifecycle nodes that are there for their state; call it now and then."""
        for name, client in self._asked.items():
            if name not in self._answers and client.service_is_ready():
                self._answers[name] = client.call_async(GetState.Request())

    def finish(self) -> Heard:
        """Look at the graph, as it is now."""
        heard, node = self.heard, self._node
        every = dict(node.get_topic_names_and_types())
        heard.topics = {t: types for t, types in every.items() if node.count_publishers(t)}
        heard.sinks = {t: types for t, types in every.items() if self._others(t)}
        heard.clock = self._clock_now is not None
        there = {name for name, _ in node.get_node_names_and_namespaces()}
        for name in NODES:
            if name in there:
                answer = self._answers.get(name)
                result = answer.result() if answer is not None and answer.done() else None
                heard.lifecycle[name] = None if result is None else result.current_state.label
        for samples, kind, wanted, offered in self._wanted:
            topic = samples.topic
            samples.publishers = [
                _endpoint(e, kind, wanted, None) for e in node.get_publishers_info_by_topic(topic)
            ]
            samples.subscribers = [_endpoint(e, kind, None, offered) for e in self._others(topic)]
        return heard

    def _others(self, topic: str) -> list[Any]:
        """Subscriptions of a topic but this listener's own."""
        there = self._node.get_subscriptions_info_by_topic(topic)
        return [e for e in there if e.node_name != self._node.get_name()]

    def _listen(
        self,
        label: str,
        topic: str,
        kind: Any,
        keep: Callable[[Samples, Any], float | None],
        *,
        raw: bool = False,
        mine: QoSProfile = _ANY,
        wanted: QoSProfile | None = None,
        offered: QoSProfile | None = None,
    ) -> Samples:
        """keep: notes a message and gives its stamp, s, None where it has none. wanted, offered:
        what the node that this topic is for asks of publishers, or offers to subscribers."""
        samples = Samples(self._node.resolve_topic_name(topic), label, type_name(kind))

        def on_message(message: Any, info: Mapping[str, int]) -> None:
            samples.arrived.append(time.monotonic())
            samples.sent.append(sent(info))
            if raw:
                samples.size = len(message)
            try:
                stamp = keep(samples, message)
            except ValueError as error:
                samples.refusals.append(str(error))
                return
            if stamp is not None:
                samples.stamps.append(stamp)
                samples.now.append(self._now(stamp))

        self._node.create_subscription(kind, topic, informed(on_message), mine, raw=raw)
        self._wanted.append((samples, kind, wanted, offered))
        return samples

    def _now(self, stamp: float) -> float:
        wall = time.time()
        if self._clock_now is None or abs(wall - stamp) < abs(self._clock_now - stamp):
            return wall
        return self._clock_now

    def _on_clock(self, message: Clock) -> None:
        self._clock_now = convert.ns_to_seconds(convert.stamp_to_ns(message.clock))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.hardware_id == "phyai_ros":
                level = int.from_bytes(status.level, "little")
                self.heard.diagnostics[status.name] = (level, status.message)

    @staticmethod
    def _on_image(samples: Samples, serialised: bytes) -> float:
        raw = cdr.read_image(serialised)
        samples.facts["encoding"], samples.facts["size"] = raw.encoding, (raw.height, raw.width)
        samples.facts.setdefault("pixels", set()).add(zlib.crc32(raw.data))
        return convert.image_from_raw(serialised).stamp

    @staticmethod
    def _on_compressed(samples: Samples, serialised: bytes) -> float:
        raw = cdr.read_compressed_image(serialised)
        samples.facts["encoding"] = raw.format
        samples.facts.setdefault("pixels", set()).add(zlib.crc32(raw.data))
        if "size" not in samples.facts or samples.count % 10 == 0:  # decoding is slow
            samples.facts["size"] = convert.compressed_from_raw(serialised).pixels.shape[:2]
        return convert.ns_to_seconds(raw.stamp_ns)


def _on_joints(prefix: str, samples: Samples, message: JointState) -> float:
    facts = samples.facts
    names, ranges = facts.setdefault("names", {}), facts.setdefault("ranges", {})
    for name in message.name:
        names[prefix + name] = names.get(prefix + name, 0) + 1
    sample = convert.joints_from_message(message, prefix)
    facts.setdefault("sets", set()).add(tuple(sample.positions))
    for name in sample.nonfinite:
        facts.setdefault("nonfinite", set()).add(name)
    for name, value in sample.positions.items():
        if name not in sample.nonfinite:
            low, high = ranges.get(name, (value, value))
            ranges[name] = (min(low, value), max(high, value))
    return sample.stamp


def _on_newest(samples: Samples, message: Any) -> float | None:
    samples.facts["newest"] = message
    header = getattr(message, "header", None)
    return None if header is None else convert.ns_to_seconds(convert.stamp_to_ns(header.stamp))


def _on_state(samples: Samples, message: HandoffState) -> float | None:
    if message.state in (HandoffState.RAMPING, HandoffState.EXECUTING):
        samples.facts["acting"] = samples.facts.get("acting", 0) + 1
    return _on_newest(samples, message)


def _keep(field_name: str) -> Callable[[Samples, Any], None]:
    def keep(samples: Samples, message: Any) -> None:
        samples.facts["value"] = getattr(message, field_name, None)

    return keep


def _endpoint(
    info: Any, kind: Any, wanted: QoSProfile | None, offered: QoSProfile | None
) -> Endpoint:
    problem = None
    profile = info.qos_profile
    if info.topic_type != type_name(kind):
        problem = f"type is {info.topic_type}, expected {type_name(kind)}"
    elif wanted is not None:
        problem = qos.incompatibility(profile.reliability, profile.durability, wanted)
    elif offered is not None:
        problem = qos.incompatibility(offered.reliability, offered.durability, profile)
    return Endpoint(endpoints.full_name(info), info.topic_type, problem)
