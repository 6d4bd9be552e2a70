# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every topic and field that the layouts in docs/ name exists."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray

from phyai_ros import robots
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes.interfaces import interfaces

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {
    "/phyai/handoff_state": HandoffState,
    "/phyai/chunk": ActionChunk,
    "/diagnostics": DiagnosticArray,
    "/joint_states": JointState,
    "/forward_position_controller/commands": Float64MultiArray,
    "/camera/scene/image_raw": Image,
    "/camera/wrist/image_raw": Image,
    "/phyai/overlay/scene": Image,
    "/phyai/overlay/wrist": Image,
}


@pytest.fixture(scope="module")
def topics():
    every = ("policy_node", "handoff_node", "overlay_node", "sim_node")
    nodes = interfaces(robots.load("ur10e"), every)
    published = set().union(*(node.publish for node in nodes.values()))
    assert set(KINDS) <= published
    return published


def holds(message, fields):
    """Whether a message has a.b[0].c, given as [a, b[0], c]."""
    for field in fields:
        name = re.sub(r"\[\d+\]$", "", field)
        if not hasattr(message, name):
            return False
        message = getattr(message, name)
    return True


def test_foxglove(topics):
    layout = json.loads((DOCS / "foxglove_layout.json").read_text())
    panels = layout["configById"]

    def leaves(node):
        return [node] if isinstance(node, str) else leaves(node["first"]) + leaves(node["second"])

    assert sorted(leaves(layout["layout"])) == sorted(panels)
    used = 0
    for name, panel in panels.items():
        paths = [path["value"] for path in panel.get("paths", ())]
        for key in ("topicToRender", "topicPath"):
            paths += [panel[key]] if key in panel else []
        paths += [panel["imageMode"]["imageTopic"]] if "imageMode" in panel else []
        assert paths, name
        for path in paths:
            topic, *fields = path.split(".")
            assert topic in topics, path
            assert holds(KINDS[topic](), fields), path
            used += 1
    assert used > 25


def test_plotjuggler(topics):
    root = ElementTree.parse(DOCS / "plotjuggler_layout.xml").getroot()
    curves = [curve.get("name") for curve in root.iter("curve")]
    assert len(curves) > 25
    joints = robots.load("ur10e").joint_names
    for curve in curves:
        topic = next((t for t in sorted(KINDS, key=len)[::-1] if curve.startswith(f"{t}/")), None)
        assert topic in topics, curve
        fields = curve[len(topic) + 1 :].split("/")
        if topic == "/joint_states":  # PlotJuggler names a joint state's curves by joint
            assert fields[0] in joints, curve
            fields = fields[1:]
        assert holds(KINDS[topic](), fields), curve
    for splitter in root.iter("DockSplitter"):
        assert (
            int(splitter.get("count"))
            == len(list(splitter))
            == len(splitter.get("sizes").split(";"))
        )
