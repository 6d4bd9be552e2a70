# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every topic and service of every node, as data: what access control may allow, and no more.

A test holds it against the graph of the running nodes. No rclpy here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from phyai_ros.nodes.topics import BOOL, OVERLAY, info_topic
from phyai_ros.robots.robot import Robot
from phyai_ros.sim import cells

_NODE_SERVICES = (
    "describe_parameters",
    "get_parameter_types",
    "get_parameters",
    "list_parameters",
    "set_parameters",
    "set_parameters_atomically",
    "get_type_description",  # since Jazzy
)
_LIFECYCLE_SERVICES = (
    "change_state",
    "get_available_states",
    "get_available_transitions",
    "get_state",
    "get_transition_graph",
)


@dataclass(frozen=True)
class Interfaces:
    """Absolute names. reply: services it offers; it calls none. at_times: topics of ``subscribe``
    that it listens to at times only: a command topic, while another publisher is listed there."""

    publish: frozenset[str]
    subscribe: frozenset[str]
    reply: frozenset[str]
    at_times: frozenset[str] = frozenset()


def interfaces(robot: Robot, executables: Iterable[str], *, use_sim_time: bool = False) -> dict[
    str, Interfaces
]:  # fmt: skip
    """Node -> what it talks about. executables: of ``graph.nodes``. Nodes stand in the namespace /
    under their executables' names."""
    made = {
        "policy_node": _policy_node,
        "handoff_node": _handoff_node,
        "overlay_node": _overlay_node,
        "sim_node": lambda robot: _sim_node(robot, use_sim_time),
    }
    found = {}
    for name in executables:
        publish, subscribe, services = made[name](robot)
        if use_sim_time and name != "sim_node":  # which is the clock
            subscribe = {*subscribe, "/clock"}
        found[name] = Interfaces(
            frozenset(
                {*publish, "/diagnostics", "/rosout", "/parameter_events"}
                | {f"/{name}/transition_event"}
            ),
            frozenset(subscribe),
            frozenset(
                f"/{name}/{service}"
                for service in (*services, *_NODE_SERVICES, *_LIFECYCLE_SERVICES)
            ),
            frozenset(_outputs(robot) if name == "handoff_node" else ()),
        )
    return found


def absolute(topic: str) -> str:
    """A topic of the YAML as a node in the namespace / names it."""
    return topic if topic.startswith("/") else f"/{topic}"


def _joints(robot: Robot) -> set[str]:
    return {absolute(topic) for topic in robot.joint_state_topics}


def _outputs(robot: Robot) -> set[str]:
    return {absolute(output.topic) for output, _ in robot.outputs}


def _states(robot: Robot) -> set[str]:
    """Where the robot speaks of itself."""
    topics = {absolute(ready.topic) for ready in robot.ready.values()}
    if robot.speed_scaling is not None:
        topics.add(absolute(robot.speed_scaling.topic))
    return topics


def _policy_node(robot: Robot) -> tuple[set[str], set[str], tuple[str, ...]]:
    cameras = {absolute(camera.topic) for camera in robot.cameras.values()}
    heard = {*cameras, *_joints(robot), "/instruction", "/phyai/request"}
    return {"/phyai/chunk", "/phyai/policy_handoff"}, heard, ()


def _handoff_node(robot: Robot) -> tuple[set[str], set[str], tuple[str, ...]]:
    outputs = _outputs(robot)
    sent = {*outputs, "/phyai/request", "/phyai/handoff_state"}
    heard = {*_joints(robot), *_states(robot), "/instruction"}
    heard |= {"/phyai/chunk", "/phyai/policy_handoff", *outputs}
    return sent, heard, ("hold", "resume", "reset", "episode")


def _overlay_node(robot: Robot) -> tuple[set[str], set[str], tuple[str, ...]]:
    shown = {role: absolute(camera.topic) for role, camera in robot.cameras.items() if camera.mount}
    heard = {*shown.values(), *map(info_topic, shown.values()), *_joints(robot)}
    heard |= {"/phyai/chunk", "/phyai/handoff_state"}
    return {absolute(f"{OVERLAY}/{role}") for role in shown}, heard, ()


def _sim_node(robot: Robot, clock: bool) -> tuple[set[str], set[str], tuple[str, ...]]:
    there = cells.kind(robot.name).cameras
    cameras = (c for role, c in robot.cameras.items() if role in there)
    topics = [absolute(camera.topic) for camera in cameras]
    sent = {*topics, *map(info_topic, topics)}
    sent |= {*map(absolute, robot.joint_parts), "/sim/episode", "/instruction"}
    if clock:
        sent.add("/clock")
    sent |= {absolute(ready.topic) for ready in robot.ready.values() if ready.type == BOOL}
    if robot.speed_scaling is not None:
        sent.add(absolute(robot.speed_scaling.topic))
    return sent, _outputs(robot), ("reset",)
