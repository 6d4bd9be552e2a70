# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The UR driver's YAML in the simulator: trajectories close the loop at full speed, slowed down,
and around a protective stop. The policy is the embedded one."""

from __future__ import annotations

import itertools
import json
import signal

import pytest
from live_system import LiveSystem
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from phyai_ros.msg import HandoffState
from phyai_ros.nodes import convert, qos

pytestmark = pytest.mark.slow
DOMAIN = 84


class Cell(LiveSystem):
    def __init__(self, run_dir) -> None:
        super().__init__(run_dir, DOMAIN, "robot:=ur10e_driver")
        self.states: list[HandoffState] = []
        self.ended: list[dict] = []
        self.joints: list[JointState] = []
        listen = self.node.create_subscription
        listen(HandoffState, "phyai/handoff_state", self.states.append, qos.handoff_state())
        listen(String, "sim/episode", self._on_episode, qos.episode())
        listen(JointState, "joint_states", self.joints.append, qos.joint_states())

    def _on_episode(self, message: String) -> None:
        event = json.loads(message.data)
        if event["event"] == "end":
            self.ended.append(event)

    def set(self, name: str, value: float | bool) -> None:
        kind = (
            ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=value)
            if isinstance(value, bool)
            else ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
        )
        request = SetParameters.Request(parameters=[Parameter(name=name, value=kind)])
        assert self.call(SetParameters, "sim_node/set_parameters", request).results[0].successful


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    cell = Cell(tmp_path_factory.mktemp("run"))
    yield cell
    cell.close()


def test_trajectories_reach_the_block(cell):
    cell.until(lambda: sum(e["success"] for e in cell.ended) >= 2, "two successes")
    assert sum(e["success"] for e in cell.ended) > len(cell.ended) / 2


def test_a_slowed_arm_reaches_it_too_in_its_own_time(cell):
    cell.set("speed_scaling", 40.0)
    try:
        before, seen = len(cell.ended) + 1, len(cell.states)  # one is under way
        cell.until(
            lambda: any(e["success"] for e in cell.ended[before:]), "success in a slow episode"
        )
        moving = [s for s in cell.states[seen:] if s.state == HandoffState.EXECUTING]
        runs = [
            (convert.stamp_to_ns(b.header.stamp) - convert.stamp_to_ns(a.header.stamp)) / 1e9
            for a, b in itertools.pairwise(moving)
            if b.ticks == a.ticks + 1
        ]
        # A tick of 0.05 s takes 0.125 s at 40 %; a busy machine only makes it longer.
        assert sorted(runs)[len(runs) // 2] > 0.09
    finally:
        cell.set("speed_scaling", 100.0)


def test_around_a_protective_stop_the_arm_stands_and_goes_on(cell):
    cell.until(lambda: cell.states[-1].state == HandoffState.EXECUTING, "executing")
    cell.set("program_running", False)
    try:
        cell.until(
            lambda: (
                cell.states[-1].state == HandoffState.HOLDING
                and "program is False" in cell.states[-1].reason
            ),
            "holding",
        )
        seen = len(cell.joints)
        cell.until(lambda: len(cell.joints) > seen + 100, "joint states")
        moved = max(
            abs(a - b)
            for a, b in zip(
                cell.joints[-1].position[:6], cell.joints[seen + 60].position[:6], strict=True
            )
        )
        assert moved < 1e-3
    finally:
        cell.set("program_running", True)
    before = len(cell.ended)
    cell.until(lambda: cell.states[-1].state == HandoffState.EXECUTING, "executing again")
    cell.until(lambda: len(cell.ended) > before, "the episode's end")


def test_the_report_has_timeline_and_second_differences_of_trajectories_too(cell):
    """The last of this file: it ends the run."""
    cell.until(lambda: cell.states[-1].state == HandoffState.EXECUTING, "executing")
    cell.process.send_signal(signal.SIGINT)
    cell.process.wait(timeout=60)
    report = json.loads((cell.directory / "report.json").read_text())
    assert report["jerk"]["interior"] > 0
    assert report["jerk"]["boundary"] > 0
    assert (cell.directory / "timeline.png").stat().st_size > 10_000
