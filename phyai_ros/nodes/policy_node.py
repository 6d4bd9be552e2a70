# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""policy_node: camera images and joint states in, chunks of actions out.

The executor's thread takes messages into the aligner; the engine's thread answers the newest
request from the newest frame. Neither waits for the other.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import torch
from std_msgs.msg import String

from phyai_ros import robots
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.frame import Frame
from phyai_ros.control.states import Request
from phyai_ros.engine.policy import Policy, load_policy
from phyai_ros.msg import ActionChunk, InferenceRequest
from phyai_ros.nodes import (
    convert,
    diagnostics,
    handoff_agreement,
    lifecycle,
    model_file,
    params,
    qos,
)
from phyai_ros.nodes.answering import Answering, policy_name
from phyai_ros.nodes.clock import JumpWatch, RosSeconds, steady_timer
from phyai_ros.nodes.diagnostics import Status
from phyai_ros.nodes.frame_source import FrameSource, camera_topics, make_aligner
from phyai_ros.nodes.history import History
from phyai_ros.nodes.inference import Answer, InferenceLoop
from phyai_ros.nodes.instruction import clean_instruction
from phyai_ros.nodes.memory import keep_freed_memory
from phyai_ros.nodes.policy_parameters import PARAMETERS
from phyai_ros.nodes.policy_status import aligner_status, inference_status
from phyai_ros.nodes.sensors import Cameras, Joints
from phyai_ros.nodes.streams import Stream, instructions
from phyai_ros.nodes.synchronizer import SynchronizedCameras
from phyai_ros.robots.binding import Binding


class PolicyNode(lifecycle.ManagedNode):
    """See the module."""

    PARAMETERS = PARAMETERS

    def __init__(self, **kwargs: Any) -> None:
        self._loop: InferenceLoop | None = None
        self._policy: Policy | None = None
        self._engine = threading.Lock()
        """One inference at a time, also when one outlives the activation it was asked in."""
        self._owned: list[Any] = []
        self._timers_owned: list[Any] = []
        self._changed = False
        self._jumped = False
        self._instruction = ""
        super().__init__("policy_node", **kwargs)

    # -- transitions -------------------------------------------------------------------------

    def configure(self) -> None:
        values = params.read(self, self.PARAMETERS)
        self._values = values
        self._log = diagnostics.EdgeLog(self.get_logger())
        self._now = RosSeconds(self.get_clock())
        robot = robots.load(values.robot)
        self._load(robot)
        if values.instruction:
            self._instruction = clean_instruction(values.instruction)
        self._subscribe(robot)

    def _load(self, robot: robots.Robot) -> None:
        values = self._values
        chosen = model_file.choose(values.model, robot.name, values.checkpoint, values.embodiment)
        if values.threads:
            torch.set_num_threads(values.threads)
        started = time.monotonic()
        self._policy = load_policy(
            chosen.checkpoint,
            family=chosen.family,
            embodiment=chosen.embodiment,
            device=_device(values.device),
            dtype=values.precision,
            revision=chosen.revision,
            selector=values.selector,
        )
        self._binding = Binding(robot, self._policy.spec, chosen.part, source=chosen.source)
        for doubt in self._binding.doubts:
            self.get_logger().warning(doubt)
        roles = self._binding.roles
        optional = self._binding.optional_cameras
        self._policy.warm_up(
            {key: robot.cameras[role].size for key, role in roles.items()},
            absent=[k for k, r in roles.items() if robot.cameras[r].optional and r in optional],
        )
        spec = self._policy.spec
        self._name = policy_name(spec.family, chosen.checkpoint, values.precision, values.seed)
        self._answering = Answering(
            self._policy, self._binding, values.seed, self._name, values.handoff
        )
        self.get_logger().info(
            f"{self._name} on {self._policy.device} ({chosen.checkpoint}): {spec.horizon} rows of "
            f"{self._binding.step:g} s for {len(robot.joint_names)} joints of {robot.name}; "
            f"loaded and warm in {time.monotonic() - started:.1f} s"
        )

    def _subscribe(self, robot: robots.Robot) -> None:
        assert self._policy is not None
        binding, log = self._binding, self._log
        keep = self._policy.frames.put
        self._source = FrameSource(make_aligner(robot, binding), self._now, keep)
        cameras = camera_topics(robot, binding)
        self._cameras: Cameras | SynchronizedCameras
        if self._values.synchronizer == "message_filters":
            self._cameras = SynchronizedCameras(self, cameras, self._source, log, robot.max_skew)
        else:
            self._cameras = Cameras(self, cameras, self._source, log)
        self._owned.append(self._cameras)
        topics, prefixes = robot.joint_state_topics, robot.joint_prefixes
        self._joints = Joints(self, topics, self._source, log, prefixes)
        self._requests = Stream(
            self,
            "requests",
            InferenceRequest,
            "phyai/request",
            qos.request(),
            self._on_request,
            log,
        )
        self._instructions = instructions(self, self._on_instruction, log)
        self._jumps = JumpWatch(self.get_clock(), self._on_jump)
        self._owned += [self._joints, self._requests, self._instructions, self._jumps]

    def activate(self) -> None:
        self._chunks = self.create_publisher(ActionChunk, "phyai/chunk", qos.chunk())
        self._method = self.create_publisher(String, handoff_agreement.TOPIC, qos.policy_handoff())
        self._method.publish(String(data=self._values.handoff))
        assert self._policy is not None
        self._history = History(self._binding, self._source, self._policy.spec.history)
        self._loop = InferenceLoop(
            self._source,
            self._infer,
            self._publish,
            self._on_change,
            self._values.observation_timeout,
        )
        self._diagnostics = diagnostics.Publisher(self, [self._statuses])
        self._timers_owned.append(steady_timer(self, 0.25, self._watch))
        if self._policy.spec.history:
            self._timers_owned.append(self.create_timer(self._binding.step, self._history.record))
        # What exists by now stays: a full collection would hold up an answer for tens of ms.
        gc.collect()
        gc.freeze()
        self._loop.start()

    def deactivate(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if not loop.stop():
            self.get_logger().warning("an inference is still under way; its chunk is dropped")
        for timer in self._timers_owned:
            self.destroy_timer(timer)
        self._timers_owned = []
        self._diagnostics.destroy()
        self.destroy_publisher(self._chunks)
        self.destroy_publisher(self._method)

    def teardown(self) -> None:
        self.deactivate()
        for owned in reversed(self._owned):
            owned.destroy()
        self._owned, self._policy = [], None
        gc.unfreeze()

    # -- messages (executor thread) ----------------------------------------------------------

    def _on_request(self, message: InferenceRequest) -> None:
        request = convert.request_from_message(message)
        if self._loop is not None:
            self._loop.submit(request)

    def _on_instruction(self, message: String) -> None:
        self._instruction = clean_instruction(message.data)

    def _on_jump(self, seconds: float) -> None:
        self.get_logger().warning(
            f"the clock jumped by {seconds:.3f} s: every buffered image and joint state is dropped"
        )
        self._source.clear()
        self._jumped = True  # subscriptions cannot be made anew inside the clock's own callback

    # -- engine thread -----------------------------------------------------------------------

    def _infer(self, frame: Frame, request: Request) -> tuple[Chunk, Mapping[str, float]]:
        history = self._history.before(frame.stamp)
        with self._engine:
            answered = self._answering.answer(frame, request, self._instruction, history)
        return answered.chunk, answered.stages

    def _publish(self, answer: Answer) -> None:
        self._chunks.publish(convert.fill_chunk(ActionChunk(), answer.chunk, answer.stages))

    def _on_change(self) -> None:
        self._changed = True  # the executor's thread logs and publishes it

    # -- watching ----------------------------------------------------------------------------

    def _watch(self) -> None:
        self._jumps.check()
        if self._jumped:
            self._jumped = False
            self._cameras.clear()
        if self._loop is None:
            return
        self._log.set("inference", self._loop.troubles.lately)
        if not self._changed:
            self._diagnostics.look()
            return
        self._changed = False
        if (trace := self._loop.traceback) is not None:
            self._loop.traceback = None
            self.get_logger().error(f"inference failed:\n{trace}")
        self._diagnostics.publish()

    def _statuses(self) -> list[Status]:
        if self._loop is None:
            return []
        return [
            inference_status(self._loop, self._name, self._instruction, time.monotonic()),
            aligner_status(self._source),
            *self._cameras.statuses(),
            *self._joints.statuses(),
            self._requests.status(),
            self._instructions.status(),
        ]


def _device(name: str) -> str:
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def main() -> int:
    keep_freed_memory()
    return lifecycle.run(PolicyNode)


if __name__ == "__main__":
    sys.exit(main())
