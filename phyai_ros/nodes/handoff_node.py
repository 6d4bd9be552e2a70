# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node: one fresh command a control tick, or a named safe state.

Its own process, so that no inference ever holds its interpreter lock. The control thread runs
``ControlLoop``; the executor's thread takes messages and services and only posts to it.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from functools import partial
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from phyai_ros import robots
from phyai_ros.control.states import State
from phyai_ros.msg import ActionChunk
from phyai_ros.nodes import convert, diagnostics, lifecycle, outlets, outputs, params, qos
from phyai_ros.nodes.clock import JumpWatch, RosSeconds, steady_timer
from phyai_ros.nodes.control_loop import ControlLoop
from phyai_ros.nodes.diagnostics import Status
from phyai_ros.nodes.fail_safe import FailSafe
from phyai_ros.nodes.handoff_agreement import Agreement
from phyai_ros.nodes.handoff_parameters import PARAMETERS, handoff_config
from phyai_ros.nodes.handoff_services import HandoffServices
from phyai_ros.nodes.handoff_sink import HandoffSink
from phyai_ros.nodes.handoff_status import handoff_status, output_status, timer_status
from phyai_ros.nodes.handoff_watch import HandoffWatch
from phyai_ros.nodes.holds import Holds
from phyai_ros.nodes.instruction import clean_instruction
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.nodes.masters import Masters
from phyai_ros.nodes.pacer import Pacer, raise_others
from phyai_ros.nodes.rivals import Rivals
from phyai_ros.nodes.robot_gate import RobotGate
from phyai_ros.nodes.streams import Stream, instructions
from phyai_ros.robots.handoff import make_handoff

SHORT_STOP = 0.7
"""Seconds that an arm which brakes well has; a clock that stands still is not waited for longer."""
LONGEST_STOP = 1.5
"""Seconds that stopping the arm may take when the node ends; Ctrl-C shall end everything in 3."""


class HandoffNode(lifecycle.ManagedNode):
    """See the module. Services: ``~/hold``, ``~/resume``, ``~/reset``, ``~/episode``."""

    PARAMETERS = PARAMETERS

    def __init__(self, **kwargs: Any) -> None:
        self._pacer: Pacer | None = None
        self._stopping = threading.Lock()
        self._raised = False
        self._blocked = ""
        self._owned: list[Any] = []
        super().__init__("handoff_node", **kwargs)

    # -- transitions -------------------------------------------------------------------------

    def configure(self) -> None:
        values = params.read(self, self.PARAMETERS)
        robot = robots.load(values.robot)
        config = handoff_config(values, robot)
        self._values, self._period = values, config.period
        self._log = diagnostics.EdgeLog(self.get_logger())
        self._now = RosSeconds(self.get_clock())
        self._handoff = make_handoff(robot, config, values.handoff, live=not values.dry_run)
        self._prefixes = robot.joint_prefixes
        self._joints = JointBuffer(robot.joint_names, values.joint_state_max_age)
        ways = () if values.dry_run else outlets.ways(robot)
        commands = [(way.topic, way.type) for way in ways]
        self._masters = Masters(self, commands, self._on_master, lambda: self._sink.commanded)
        self._owned.append(self._masters)
        self._output = outputs.make(self, robot, self._handoff, dry_run=values.dry_run)
        self._owned.append(self._output)
        self._masters.own()
        self._blocked = ""
        self._holds = Holds(self._handoff, self._output)
        self._gate = RobotGate(self, robot, self._log, self._check_robot)
        self._owned.append(self._gate)
        self._sink = HandoffSink(self, self._handoff, self._output)
        self._owned.append(self._sink)
        self._loop = ControlLoop(
            self._handoff,
            self._sink,
            self._now,
            self._measured,
            lambda: self._gate.factor,
            self._now.steady,
        )
        self._fail_safe = FailSafe(self._loop, self._handoff, self._sink, self._on_failure)
        self._rivals = Rivals(
            self,
            self._log,
            [output.topic for output, _ in robot.outputs],
            0 if values.dry_run else 1,
            "phyai/chunk",
            robot.joint_state_topics,
            self._masters.heard,
        )
        self._agreement = Agreement(self, values.handoff, self._log)
        self._owned.append(self._agreement)
        self._subscribe(robot)
        self._seen = HandoffWatch(
            self._log,
            self._handoff,
            self._sink,
            self._output,
            self._chunks,
            self._joints,
            lambda: self._gate.factor,
            self._agreement.trouble,
            dry_run=values.dry_run,
        )
        self._owned.append(
            HandoffServices(
                self,
                self._loop,
                self._holds,
                self._handoff,
                lambda: self._pacer is not None,
                self._masters.forget,
            )
        )
        self._instruction = ""
        if values.instruction:
            self._on_instruction(String(data=values.instruction))

    def _subscribe(self, robot: Any) -> None:
        log = self._log
        self._chunks = Stream(
            self, "chunks", ActionChunk, "phyai/chunk", qos.chunk(), self._on_chunk, log, timed=True
        )
        self._instructions = instructions(self, self._on_instruction, log)
        self._joint_streams = {
            topic: Stream(
                self,
                "joint states",
                JointState,
                topic,
                qos.joint_states(),
                partial(self._on_joints, topic),
                log,
                stale_after=self._values.joint_state_max_age,
            )
            for topic in robot.joint_state_topics
        }
        self._owned += [self._chunks, self._instructions, *self._joint_streams.values()]
        self._jumps = JumpWatch(self.get_clock(), self._on_jump)
        self._owned.append(self._jumps)

    def activate(self) -> None:
        self._seen.restart()
        self._masters.restart()
        # Behind what was posted before: that it has listened for long enough, perhaps.
        self._loop.post(partial(self._listened, self._masters.waits_for))
        self._diagnostics = diagnostics.Publisher(self, [self._statuses])
        self._watch_timer = steady_timer(self, 0.25, self._watch)
        self._pacer = Pacer(
            self._period,
            self._tick,
            self._on_loop_error,
            realtime_priority=self._values.realtime_priority,
        )
        self._check_robot()
        self._loop.post(self._holds.activated)
        pacer, missed = self._pacer, self._sink.missed
        self._sink.pace = lambda: (pacer.jitter, missed + pacer.missed)
        pacer.start()

    def deactivate(self) -> None:
        """Bring the arm to rest within its acceleration limits, then end the control thread."""
        # The end of the process may find the executor's thread at it: it is not to take away what
        # the arm is braked with.
        with self._stopping:
            pacer, self._pacer = self._pacer, None
            if pacer is not None:
                self._bring_to_rest(pacer)

    def _bring_to_rest(self, pacer: Pacer) -> None:
        self._loop.post(lambda now: self._handoff.hold("node deactivated"))
        guard = self._handoff.guard
        braking = float((guard.limits.velocity / guard.limits.acceleration).max())
        # Ticks are the robot's own time.
        needed = (braking + 4.0 * self._period) / self._gate.factor
        patience = min(max(SHORT_STOP, needed), LONGEST_STOP)
        end = time.monotonic() + patience
        while pacer.running and time.monotonic() < end:
            time.sleep(self._period)
            if self._sink.state in (State.HOLDING, State.FAULT) and guard.standing:
                break
        pacer.stop()
        if not guard.standing and not self._handoff.config.plays_on:
            self.get_logger().error(
                f"no command is sent any more, and the arm may be MOVING: it was not braked to "
                f"rest within {patience:.1f} s"
            )
        # Others may move the arm while this node is inactive: it starts from where it is then.
        self._handoff.pause()
        self.destroy_timer(self._watch_timer)
        self._diagnostics.destroy()

    def teardown(self) -> None:
        self.deactivate()
        for owned in reversed(self._owned):
            owned.destroy()
        self._owned = []

    def _tick(self) -> None:
        pacer = self._pacer  # the executor's thread takes it away when it deactivates the node
        if pacer is not None and pacer.jitter > self._handoff.config.clock_jump:
            # This process stood still for so long that the arm has come to rest without it.
            self._handoff.let_go()
        elif pacer is not None and pacer.jitter >= self._period:
            self._handoff.stood_by(int(pacer.jitter / self._period))
        self._fail_safe.tick()

    # -- messages (executor thread) ----------------------------------------------------------

    def _on_joints(self, topic: str, message: JointState) -> None:
        sample = convert.joints_from_message(message, self._prefixes.get(topic, ""))
        self._masters.met()
        self._rivals.heard(topic, sample.positions)
        sender = self._joint_streams[topic].sender
        self._joints.add(sample, time.monotonic(), topic, sender)
        if self._holds.owes and self._pacer is not None:
            self._loop.post(lambda now: self._holds.settle(self._measured()))
        if sample.nonfinite:
            raise convert.MessageError(f"position is not a number: {', '.join(sample.nonfinite)}")

    def _measured(self) -> np.ndarray | None:
        return self._joints.positions(time.monotonic())

    def _on_chunk(self, message: ActionChunk, age: float) -> None:
        if self._pacer is None:
            return  # another handoff's: nothing here would ever take it
        self._loop.post_chunk(convert.chunk_from_message(message), self._now() - age)

    def _on_instruction(self, message: String) -> None:
        text = clean_instruction(message.data)
        if text == self._instruction:
            return  # said again, perhaps many times a second: while inactive that would pile up
        self._instruction = text
        self._loop.post(lambda now: self._handoff.set_instruction(text, now))

    def _on_jump(self, seconds: float) -> None:
        # The handoff sees the jump in its own ticks; what was measured before it is void.
        self.get_logger().warning(f"the clock jumped by {seconds:.3f} s")
        self._joints.clear()

    def _listened(self, waits_for: str, now: float) -> None:
        self._handoff.waits_for = waits_for

    def _on_master(self, text: str) -> None:
        if self._pacer is not None:
            self._loop.post(lambda now: self._handoff.fail(text))

    # -- watching ----------------------------------------------------------------------------

    def _check_robot(self) -> None:
        """Whether the robot takes commands has changed, or why it does not."""
        trouble = self._gate.trouble() or ""
        if trouble == self._blocked:
            return
        self._blocked = trouble
        if trouble:
            stands = self._gate.stands
            self._loop.post(lambda now: self._holds.block(trouble, self._measured(), stands=stands))
        else:
            self._loop.post(self._holds.unblock)

    def _watch(self) -> None:
        """Four times a second on the executor's thread: what only the ROS graph knows."""
        self._jumps.check()
        self._gate.watch()
        self._check_robot()
        if self.failure is not None:
            self._diagnostics.publish()
            raise lifecycle.NodeFailed(self.failure)
        if not self._raised:
            self._raised = True
            refusal = raise_others(self._values.realtime_priority - 1)
            if refusal is not None:
                self.get_logger().info(refusal)
        self._masters.look()
        self._loop.post(partial(self._listened, self._masters.waits_for))
        heard = [stream.heard for stream in (self._chunks, *self._joint_streams.values())]
        self._rivals.look({gid: at for part in heard for gid, at in part.items()})
        if self._chunks.arrivals():
            # A policy that has just come, or come back, has heard none of the questions before.
            self._loop.post(lambda now: self._handoff.requests.forget())
        if self._seen.look():
            self._diagnostics.publish()
        else:
            self._diagnostics.look()

    def _on_failure(self, error: Exception) -> None:
        text = "".join(traceback.format_exception(error))
        self.get_logger().fatal(f"the control loop failed, the arm is brought to rest:\n{text}")

    def _on_loop_error(self, error: BaseException) -> None:
        rest = "the arm stands" if self._handoff.guard.standing else "the arm may be MOVING"
        self.get_logger().fatal(
            f"the control loop ended, no command is sent any more, {rest}: {error!r}"
        )
        self.failure = f"control loop: {error!r}"

    def _statuses(self) -> list[Status]:
        streams = [self._chunks, *self._joint_streams.values(), self._instructions]
        return [
            handoff_status(self._handoff, self._sink, self.failure, self._seen),
            timer_status(
                self._period, self._handoff, self._sink, self._pacer, self._seen.standstill
            ),
            output_status(self._output),
            self._agreement.status(),
            self._rivals.status(),
            *(stream.status() for stream in streams),
            *self._gate.statuses(),
        ]


def main() -> int:
    return lifecycle.run(HandoffNode)


if __name__ == "__main__":
    sys.exit(main())
