# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""sim_node: a simulated robot behind the real one's topics, paced on the wall clock.

Three threads: physics (steps, publishes joint states, alone touches the world), cameras (renders),
and the executor's (messages and services; it only posts to the physics thread).
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from phyai_ros import robots
from phyai_ros.nodes import convert, diagnostics, lifecycle, params, qos, sim_status
from phyai_ros.nodes.cdr import NANOSECONDS
from phyai_ros.nodes.diagnostics import Status
from phyai_ros.nodes.pacer import Pacer
from phyai_ros.nodes.sim_cameras import Cameras, CameraSettings, camera_topics
from phyai_ros.nodes.sim_driver import SimDriver
from phyai_ros.nodes.sim_inputs import Goals, SimInputs
from phyai_ros.nodes.sim_parameters import JOINTS, PARAMETERS, SAMPLED
from phyai_ros.nodes.sim_time import SimTime
from phyai_ros.robots.robot import Robot
from phyai_ros.sim import cells
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.episodes import Episodes
from phyai_ros.sim.render import RenderingError

_CYCLE = 0.005
"""Period of the physics thread, s; also how long a command may wait."""

_PATIENCE = 3.0
"""How long commands may be refused at an episode's start before it is worth a warning, s."""


class SimNode(lifecycle.ManagedNode):
    """See the module. Service ``~/reset``: the next seeded episode; answers with its JSON."""

    PARAMETERS = PARAMETERS

    def __init__(self, **kwargs: Any) -> None:
        self._pacer: Pacer | None = None
        self._owned: list[Callable[[], Any]] = []
        super().__init__("sim_node", **kwargs)
        self.declare_parameter("joints", [""], JOINTS)

    # -- transitions -------------------------------------------------------------------------

    def configure(self) -> None:
        values = params.read(self, self.PARAMETERS)
        self._values = values
        conveyor = None
        if values.conveyor_speed > 0.0:
            conveyor = Conveyor(values.conveyor_speed, values.conveyor_reversing)
        fixed = values.instruction.strip()
        robot = robots.load(values.robot)
        topics = camera_topics(robot)
        self._parts = robot.joint_parts
        self._world = cells.make(
            robot.name,
            values.task,
            values.seed,
            conveyor=conveyor,
            instruction=None if fixed in ("", SAMPLED) else fixed,
        )
        self._episodes = Episodes(
            self._world, values.seed, values.time_limit, values.start_tolerance
        )
        self._log = diagnostics.EdgeLog(self.get_logger())
        self._inbox: deque[Callable[[], None]] = deque()
        self._accepted = 0
        self._refused_since: float | None = None
        self._start_cameras(topics)
        self._connect(robot)
        joints = self._world.joint_names
        self._driver = SimDriver(self, robot, joints, self._refuse_trajectory)
        self._owned.append(self._driver.destroy)

    def _refuse_trajectory(self, why: str) -> None:
        self._inputs.bad.add("trajectory")
        self.get_logger().warning(f"trajectory refused: {why}", throttle_duration_sec=1.0)

    def _order(self) -> list[str]:
        """The parameter ``joints``; empty where it is not given."""
        names = [name for name in self.get_parameter("joints").value if name]
        known = self._world.joint_names
        if names and sorted(names) != sorted(known):
            raise params.ParameterError(
                f"parameter 'joints' is {names}; allowed: {', '.join(known)} in any order, "
                "each once"
            )
        return names

    def _start_cameras(self, topics: Mapping[str, str]) -> None:
        v = self._values
        settings = CameraSettings(topics, v.width, v.height, v.shadows, v.antialias)
        self._cameras = Cameras(self, self._world.physics.model, settings)
        self._owned.append(self._cameras.destroy)
        try:
            self._cameras.wait_ready()
        except RenderingError as error:
            raise ValueError(str(error)) from error

    def _connect(self, robot: Robot) -> None:
        self._joint_states = {
            topic: self._publisher(JointState, topic, qos.joint_states()) for topic in self._parts
        }
        self._episode = self._publisher(String, "sim/episode", qos.episode())
        self._told = None
        if self._values.tell_instruction:
            self._told = self._publisher(String, "instruction", qos.instruction())
        self._clock_topic = None
        if self._values.publish_clock:
            self._clock_topic = self._publisher(Clock, "/clock", qos.clock())
        self._inputs = SimInputs(self, robot, self._world.joint_names, self._order(), self._take)
        self._owned.append(self._inputs.destroy)
        service = self.create_service(Trigger, "~/reset", self._on_reset)
        self._owned.append(lambda: self.destroy_service(service))

    def _publisher(self, kind: Any, topic: str, profile: Any) -> Any:
        publisher = self.create_publisher(kind, topic, profile)
        self._owned.append(lambda: self.destroy_publisher(publisher))
        return publisher

    def activate(self) -> None:
        v = self._values
        self._time = SimTime(v.speed, simulated_stamps=v.publish_clock)
        self._next_joints = self._next_images = 0.0
        self._announce("start")
        publisher = diagnostics.Publisher(self, [self._statuses])
        self._owned.append(publisher.destroy)
        self._pacer = Pacer(_CYCLE, self._cycle, self._on_cycle_error)
        self._pacer.start()

    def deactivate(self) -> None:
        if self._pacer is not None:
            self._pacer.stop()
            self._pacer = None

    def teardown(self) -> None:
        self.deactivate()
        while self._owned:
            self._owned.pop()()

    # -- physics thread ----------------------------------------------------------------------

    def _cycle(self) -> None:
        while self._inbox:
            self._inbox.popleft()()
        seconds = self._time.advance(time.monotonic(), time.time_ns())
        self._world.step(seconds)
        stamp, now = self._time.stamp_ns, self._time.elapsed
        goals = self._driver.step(seconds, now, self._world.physics.joints()[0])
        if goals is not None:
            self._apply(self._with_others(goals))
        outcome = self._episodes.update()
        if self._clock_topic is not None:
            message = Clock()
            convert.set_time(message.clock, stamp)
            self._clock_topic.publish(message)
        if now >= self._next_joints:
            self._next_joints = _after(self._next_joints, now, 1.0 / self._values.joint_rate)
            self._publish_joints(stamp)
        if now >= self._next_images:
            self._next_images = _after(self._next_images, now, 1.0 / self._values.camera_rate)
            self._cameras.shoot(stamp, self._world.physics.positions)
        if outcome is not None:
            self._announce("end")

    def _publish_joints(self, stamp: int) -> None:
        joints = self._world.joints()
        for topic, part in self._parts.items():
            message = JointState(
                name=list(part),
                position=[joints[joint][0] for joint in part.values()],
                velocity=[joints[joint][1] for joint in part.values()],
            )
            message.header.frame_id = "base_link"
            convert.set_time(message.header.stamp, stamp)
            self._joint_states[topic].publish(message)

    def _announce(self, event: str) -> str:
        about = {
            "event": event,
            **self._episodes.description(),
            "time": self._time.stamp_ns / NANOSECONDS,
        }
        text = json.dumps(about)
        if event == "start" and self._told is not None:
            self._told.publish(String(data=self._world.instruction))
        self._episode.publish(String(data=text))
        return text

    def _apply(self, positions: np.ndarray) -> None:
        refusal = self._episodes.command(positions)
        if refusal is None:
            self._accepted += 1
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = self._time.elapsed
        # For a moment after a reset this is as it should be: the executor still holds the old pose.
        lasting = refusal and self._time.elapsed - (self._refused_since or 0.0) > _PATIENCE
        self._log.set("command", refusal if lasting else None)

    # -- executor's thread -------------------------------------------------------------------

    def _take(self, goals: Goals) -> None:
        if self._driver.running:
            self._inbox.append(lambda: self._apply(self._with_others(goals)))

    def _with_others(self, goals: Goals) -> np.ndarray:
        """Goals of every joint: those that this command leaves alone keep theirs."""
        positions = self._world.physics.goal
        for name, value in goals.items():
            positions[self._world.joint_names.index(name)] = value
        return positions

    def _on_reset(self, request: Any, response: Any) -> Any:
        done = threading.Event()
        said: list[str] = []

        def work() -> None:
            self._episodes.begin_next()
            self._refused_since = None
            self._driver.restart()
            said.append(self._announce("start"))
            done.set()

        if self._pacer is not None:
            self._inbox.append(work)
            response.success = done.wait(timeout=5.0)
        response.message = said[0] if said else "the simulation is not running: is it active?"
        return response

    # -- watching ----------------------------------------------------------------------------

    def _on_cycle_error(self, error: BaseException) -> None:
        if not self.context.ok():  # Ctrl-C took the context away while a message was on its way
            return
        text = "".join(traceback.format_exception(error))
        self.get_logger().fatal(f"the simulation stopped:\n{text}")
        self.failure = f"{type(error).__name__}: {error}"

    def _statuses(self) -> list[Status]:
        failure = self._cameras.failure
        self._log.set("cameras", repr(failure) if failure else None, error=True)
        missed = self._pacer.missed if self._pacer is not None else 0
        return [
            sim_status.pace(self._time, self._values.speed, missed, self.failure),
            sim_status.cameras(self._cameras),
            sim_status.episode(self._episodes, self._world, self._accepted, self._inputs.bad),
        ]


def _after(due: float, now: float, period: float) -> float:
    """The next due time on the same grid; what was missed is not made up."""
    return due + period * max(1.0, np.ceil((now - due) / period))


def main() -> int:
    return lifecycle.run(SimNode)


if __name__ == "__main__":
    sys.exit(main())
