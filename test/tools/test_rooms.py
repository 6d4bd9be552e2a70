# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The arrows of docs/architecture.md: which room imports which."""

import ast
from pathlib import Path

import pytest

import phyai_ros.control

PACKAGE = Path(phyai_ros.control.__file__).parents[1]
ARROWS = {
    "engine": set(),
    "control": set(),
    "sim": set(),
    "bags": set(),
    "robots": {"control", "engine.types"},
    "nodes": {"control", "engine", "robots", "sim", "msg"},
    "study": {"control", "engine", "robots", "sim", "nodes", "tools.plot_style"},
    "replay": {"control", "engine", "robots", "nodes", "bags"},
}
ROS = {"rclpy", "sensor_msgs", "std_msgs", "phyai_ros.msg", "diagnostic_msgs"}
WITHOUT_ROS = {"engine", "control", "sim", "bags", "robots"}


def imported(path):
    """Modules that a file names in its imports, also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_knows_only_those_that_the_architecture_says(room):
    seen = 0
    for path in (PACKAGE / room).rglob("*.py"):
        for name in imported(path):
            seen += 1
            if name.startswith("phyai_ros."):
                inside = name.removeprefix("phyai_ros.")
                allowed = {room, *ARROWS[room]}
                known = any(inside == one or inside.startswith(f"{one}.") for one in allowed)
                assert known, f"{path.relative_to(PACKAGE)}: {name}"
            if room in WITHOUT_ROS:
                assert name.split(".")[0] not in ROS, f"{path.relative_to(PACKAGE)}: {name}"
    assert seen > 10
