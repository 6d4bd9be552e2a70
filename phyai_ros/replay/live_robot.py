# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A robot description whose topics are those of a bag, for nodes that listen while it is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from phyai_ros import robots
from phyai_ros.bags.reader import Bag, BagError
from phyai_ros.replay.events import resolve


def as_recorded(robot_name: str, bag_path: str | Path, folder: str | Path) -> str:
    """robot_name, or the path of a YAML in ``folder`` that extends it: a camera recorded compressed
    where the robot's is raw, or in a namespace. Raises BagError for a bag that cannot be read or
    lacks a topic that the robot's sensors have, RobotError for the robot."""
    robot = robots.load(robot_name)
    with Bag(bag_path) as bag:
        changed: dict[str, Any] = {}
        for role, camera in robot.cameras.items():
            found = resolve(bag, camera.topic)
            if found in bag.topics and found != camera.topic:
                changed.setdefault("cameras", {})[role] = {"topic": found}
            elif found not in bag.topics and not camera.optional:
                raise BagError(_lacks(bag, found, f"{robot.source}: cameras.{role}.topic"))
        joints = [resolve(bag, topic) for topic in robot.joint_state_topics]
        for topic in joints:
            if topic not in bag.topics:
                raise BagError(_lacks(bag, topic, f"{robot.source}: joint_state_topics"))
    if joints != list(robot.joint_state_topics) and not robot.joint_prefixes:
        changed["joint_state_topics"] = joints
    if not changed:
        return robot_name
    path = Path(folder) / f"{robot.name}_as_recorded.yaml"
    text = {"extends": str(Path(robot.source).resolve()), **changed}
    path.write_text(yaml.safe_dump(text, allow_unicode=True), encoding="utf-8")
    return str(path)


def _lacks(bag: Bag, topic: str, key: str) -> str:
    return f"{bag.path}: no topic {topic} ({key}); there are: {', '.join(sorted(bag.topics))}"
