# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which topic of a robot's YAML carries what. A topic carries one type of message one way: commands
on one that the robot speaks on would be taken for the robot, or end in the middleware's error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from phyai_ros.robots.parts import Camera, Output, is_compressed

COMMANDS = {
    "forward_command": "std_msgs/msg/Float64MultiArray",
    "joint_trajectory": "trajectory_msgs/msg/JointTrajectory",
    "joint_group": "interbotix_xs_msgs/msg/JointGroupCommand",
    "joint_single": "interbotix_xs_msgs/msg/JointSingleCommand",
}
"""An output's type -> the message that it sends."""
_NAMING = ("joint_group", "joint_single")
"""Those whose messages say whom they are for."""


@dataclass(frozen=True)
class Use:
    """key: of the YAML. type: the message's. sends: commands go out on it, else it is listened to.
    name: tells outputs apart whose driver takes several on one topic."""

    key: str
    topic: str
    type: str
    sends: bool = False
    name: str = ""


OWN = tuple(
    Use("phyai_ros", topic, type_, sends)
    for topic, type_, sends in (
        ("/instruction", "std_msgs/msg/String", False),
        ("/phyai/request", "phyai_ros/msg/InferenceRequest", True),
        ("/phyai/chunk", "phyai_ros/msg/ActionChunk", True),
        ("/phyai/policy_handoff", "std_msgs/msg/String", True),
        ("/phyai/handoff_state", "phyai_ros/msg/HandoffState", True),
        ("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", True),
        ("/rosout", "rcl_interfaces/msg/Log", True),
        ("/parameter_events", "rcl_interfaces/msg/ParameterEvent", True),
        ("/clock", "rosgraph_msgs/msg/Clock", False),
    )
)
"""What the nodes themselves speak on, whichever the robot."""


def image(camera: Camera) -> str:
    """The type of a camera's messages."""
    return f"sensor_msgs/msg/{'CompressedImage' if is_compressed(camera.topic) else 'Image'}"


def command(key: str, output: Output) -> Use:
    name = output.name if output.type in _NAMING else ""
    return Use(key, output.topic, COMMANDS[output.type], True, name)


def heard(topic: str) -> str:
    """As a node without a namespace hears it: with the slash that it was given without."""
    return topic if topic.startswith(("/", "~")) else f"/{topic}"


def check_driver(key: str, output: Output, joints: Sequence[str]) -> None:
    """Raises ValueError for what Interbotix' driver could not tell the meaning of."""
    single = output.type == "joint_single"
    if output.type in _NAMING and not output.name:
        what = "joint, often gripper" if single else "group, often arm"
        raise ValueError(f"{key}.name: missing: what the driver calls this {what}")
    if single and len(joints) != 1:
        raise ValueError(
            f"{key}.joints: expected one joint for joint_single, found {', '.join(joints)}"
        )


def check(uses: Iterable[Use]) -> None:
    """Raises ValueError for a topic that is given to two that cannot share it."""
    taken: dict[str, Use] = {heard(use.topic): use for use in OWN}
    for use in uses:
        before = taken.setdefault(heard(use.topic), use)
        if before is use or _share(before, use):
            continue
        if use.sends and before.sends and use.name == before.name and before not in OWN:
            raise ValueError(
                f"{use.key}: {use.topic!r} carries another output's commands; expected a "
                f"topic of its own, or another name where the driver tells them apart by it"
            )
        does = "sends" if before.sends else "hears"
        raise ValueError(
            f"{use.key}: expected a topic of its own for {use.type}, found {use.topic!r}, on which "
            f"{before.key} {does} {before.type}{_which(use)}"
        )


def _share(one: Use, other: Use) -> bool:
    if one.type != other.type or one.sends != other.sends:
        return False
    return not one.sends or one.name != other.name


def _which(use: Use) -> str:
    if not use.sends:
        return ""
    return ": give the one on which the robot's controller takes commands"
