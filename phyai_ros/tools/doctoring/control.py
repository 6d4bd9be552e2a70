# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Findings about the nodes, the chunks between them, the robot's readiness and the commands."""

from __future__ import annotations

from phyai_ros.control.realtime import FEWER_STEPS
from phyai_ros.control.states import State
from phyai_ros.control.words import counted
from phyai_ros.nodes.convert import ns_to_seconds, stamp_to_ns
from phyai_ros.nodes.message_types import type_name
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.doctoring.findings import Finding, error, listed, warning
from phyai_ros.tools.doctoring.listen import COMMANDS, NODES, Heard
from phyai_ros.tools.doctoring.samples import Samples
from phyai_ros.tools.doctoring.sensors import candidates, heard_at_all

ACTING = (State.RAMPING, State.EXECUTING)
LISTENERS = (
    *("phyai_monitor", "phyai_watch", "phyai_doctor", "phyai_record", "rosbag2_recorder"),
    "handoff_node",
)
"""Nodes that hear commands and move nothing."""


def handoff_state(heard: Heard) -> State | None:
    """The newest one that was heard."""
    newest = heard.states.facts.get("newest") if heard.states is not None else None
    return None if newest is None else State(newest.state)


def acted(heard: Heard) -> int:
    """On how many of the ticks that were heard the arm was driven."""
    return int(heard.states.facts.get("acting", 0)) if heard.states is not None else 0


def nodes(robot: Robot, heard: Heard) -> list[Finding]:
    found = []
    for name in NODES:
        if name not in heard.lifecycle:
            advice = "start the graph: phyai-ros up, or ros2 launch phyai_ros policy.launch.py"
            found.append(error(name, "is not running (or in another ROS_DOMAIN_ID)", advice))
        elif heard.lifecycle[name] is None:
            found.append(
                error(
                    name,
                    "is there, but does not answer which state it is in",
                    "it may still be loading its checkpoint: wait, then look at its log",
                )
            )
        elif heard.lifecycle[name] != "active":
            found.append(
                error(
                    name,
                    f"is {heard.lifecycle[name]}, not active",
                    f"ros2 lifecycle set /{name} configure, then activate; its log says what "
                    "failed, if something did",
                )
            )
    return found


def told(robot: Robot, heard: Heard) -> list[Finding]:
    """The instruction, and what the nodes say of themselves."""
    found = []
    for endpoint in heard.instruction.publishers if heard.instruction is not None else ():
        if endpoint.problem:
            found.append(
                error(
                    "instruction",
                    f"{endpoint.node}: {endpoint.problem}",
                    "ros2 topic pub --qos-durability transient_local --qos-reliability reliable "
                    "/instruction std_msgs/msg/String '{data: ...}'",
                    blocks=False,
                )
            )
    state = handoff_state(heard)
    for name, (level, message) in heard.diagnostics.items():
        own = name.startswith("handoff_node: handoff")  # its state is a finding of its own
        if level >= 2 and not own and state not in ACTING:
            found.append(error(name, message, "as it says", blocks=True))
    return found


def robot_ready(robot: Robot, heard: Heard) -> list[Finding]:
    found = []
    for name, samples in heard.ready.items():
        ready = robot.ready[name]
        found += heard_at_all(samples, heard.topics, f"ready.{name}.topic")
        value = samples.facts.get("value")
        if samples.count and value not in ready.values:
            found.append(
                error(
                    samples.label,
                    f"{ready.field} is {value}, the arm takes commands at "
                    f"{listed([str(v) for v in ready.values])}",
                    "clear the stop on the teach pendant, then start its program again",
                )
            )
    if heard.speed is not None and robot.speed_scaling is not None:
        found += heard_at_all(heard.speed, heard.topics, "speed_scaling.topic")
        value = heard.speed.facts.get("value")
        if value is not None and value < 0.01 * robot.speed_scaling.full:
            advice = "raise the speed slider; a stop or a pause shows here too"
            found.append(error(heard.speed.label, "the arm is paused: speed is zero", advice))
        elif value is not None and value < 0.5 * robot.speed_scaling.full:
            found.append(
                warning(
                    heard.speed.label,
                    f"the arm runs at {100 * value / robot.speed_scaling.full:.0f} % of its speed",
                    "nothing, if that is meant: plans are played in the arm's own time",
                )
            )
    return found


def chunks(robot: Robot, heard: Heard) -> list[Finding]:
    """Between the two nodes: requests, answers, delay."""
    found: list[Finding] = []
    asked, came = heard.requests, heard.chunks
    if asked is None or came is None:
        return found
    for samples in (asked, came):
        for endpoint in samples.publishers:
            if endpoint.problem:
                found.append(
                    error(samples.label, f"{endpoint.node}: {endpoint.problem}", "one version of "
                          "phyai_ros everywhere")
                )  # fmt: skip
    policies = [e.node for e in came.publishers]
    if len(policies) > 1:
        found.append(
            error(
                "chunks",
                f"{len(policies)} policies answer on {came.topic}: {listed(policies)}",
                "stop all but one: of two answers the later one is dropped as a duplicate",
                blocks=False,
            )
        )
    if asked.count and not came.count:
        found.append(
            error(
                "chunks",
                f"{counted(asked.count, 'request')} and no chunk",
                "policy_node says why in /diagnostics and its log; the sensors' findings, if any, "
                "come first",
            )
        )
    newest = heard.states.facts.get("newest") if heard.states is not None else None
    chunk = came.facts.get("newest")
    if newest is None or chunk is None:
        return found
    step = ns_to_seconds(stamp_to_ns(chunk.step))
    lasts = round(chunk.horizon * step * robot.control_rate)
    if newest.measured_delay >= lasts:
        found.append(
            error(
                "delay",
                f"{counted(newest.measured_delay, 'tick')} from observation to first use, a chunk "
                f"lasts {lasts}",
                f"a faster device or precision, a smaller model, {FEWER_STEPS}",
            )
        )
    elif newest.expected_delay and newest.measured_delay > newest.expected_delay + 2:
        found.append(
            warning(
                "delay",
                f"{newest.measured_delay} ticks measured, {newest.expected_delay} expected",
                "inference is irregular: give the policy cores of its own, or a GPU",
            )
        )
    return found


def commands(robot: Robot, heard: Heard) -> list[Finding]:
    return [finding for output in heard.outputs.values() for finding in _commands(output, heard)]


def _commands(output: Samples, heard: Heard) -> list[Finding]:
    found = []
    able = [e for e in output.subscribers if _name(e.node) not in LISTENERS]
    for endpoint in able:
        if endpoint.problem:
            advice = "correct output.type and output.topic, or the controller"
            found.append(error("commands", f"{endpoint.node}: {endpoint.problem}", advice))
    if not able:
        found.append(
            error(
                "commands",
                f"no subscriber on {output.topic}: commands go nowhere",
                "activate the controller (ros2 control switch_controllers), or correct "
                f"output.topic: {candidates(output, heard.sinks)}",
            )
        )
    everyone = [e.node for e in output.publishers]
    senders = [node for node in everyone if _name(node) != "handoff_node"]
    if not senders and len(everyone) > 1:  # as many handoffs as that
        senders = everyone[1:]
    if senders:
        found.append(
            error(
                "commands",
                f"{listed(senders)} commands the arm too, on {output.topic}",
                "stop it: two masters on one controller make the arm jump",
                blocks=False,
            )
        )
    if output.count == 0 and handoff_state(heard) in ACTING and output.type in _each_tick():
        dry = heard.diagnostics.get("handoff_node: output", (0, ""))[1]
        found.append(
            error(
                "commands",
                "the handoff executes, but no command comes" + (f": {dry}" if dry else ""),
                "start without dry_run" if "dry run" in dry else "look at handoff_node's log",
            )
        )
    return found


def _each_tick() -> tuple[str, ...]:
    return (type_name(COMMANDS["forward_command"]),)


def _name(node: str) -> str:
    return node.rsplit("/", 1)[-1]


def state(robot: Robot, heard: Heard) -> list[Finding]:
    """What the handoff itself says, last: most often it follows from something above."""
    found: list[Finding] = []
    samples: Samples | None = heard.states
    newest = samples.facts.get("newest") if samples is not None else None
    if newest is None:
        return found
    now = State(newest.state)
    if now is State.FAULT:
        advice = (
            "repair what it names, then: ros2 service call /handoff_node/reset std_srvs/Trigger"
        )
        found.append(error("handoff", f"FAULT: {newest.reason}", advice))
    elif now not in ACTING and samples is not None and (count := acted(heard)):
        found.append(
            warning(
                "handoff",
                f"{now.name} at the end of the listening, after {count} driven ticks of "
                f"{samples.count}: {newest.reason}",
                "nothing, between two episodes; else listen again: --seconds 10",
            )
        )
    elif now not in ACTING:
        held = "held by service" in newest.reason
        advice = "ros2 service call /handoff_node/resume std_srvs/Trigger" if held else "as it says"
        found.append(error("handoff", f"{now.name}: {newest.reason}", advice))
    return found
