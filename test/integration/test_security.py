# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The generated access control against the graph of the running nodes: what they use is allowed,
and what is allowed they use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest
import rclpy
from rclpy.context import Context
from sensor_msgs.msg import Image

from phyai_ros.tools import cli, security

pytestmark = pytest.mark.slow
DOMAIN = 81  # and the next one
PATIENCE = 90.0
NODES = ("policy_node", "handoff_node", "overlay_node", "sim_node")
SOME = {"get_type_description"}
"""Services that a node of some distributions has and of others has not."""


@pytest.fixture(params=[("ur10e", False), ("ur10e_driver", True)], ids=["forward", "driver"])
def running(request, tmp_path):
    """(robot, use_sim_time, a node to look at the graph with)."""
    robot, simulated = request.param
    domain = DOMAIN + request.param_index
    environment = {
        **os.environ,
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }
    own = {"policy_node": ["-p", "instruction:=reach the red block"], "handoff_node": []}
    own["overlay_node"] = []
    for name in own:
        own[name] += ["-p", f"use_sim_time:={str(simulated).lower()}"]
    own["sim_node"] = ["-p", f"publish_clock:={str(simulated).lower()}"]
    own["sim_node"] += ["-p", "tell_instruction:=true"]
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", f"phyai_ros.nodes.{name}"),
                *("--ros-args", "-p", f"robot:={robot}", *own[name]),
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        for name in NODES
    ]
    context = Context()
    rclpy.init(context=context, args=[], domain_id=domain)
    node = rclpy.create_node("test_security", context=context)
    for role in ("scene", "wrist"):  # whose pictures are asked for while somebody looks
        node.create_subscription(Image, f"/phyai/overlay/{role}", lambda message: None, 1)
    yield robot, simulated, node
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            process.wait(timeout=30)
        finally:
            process.kill()
    node.destroy_node()
    context.try_shutdown()


def seen(node, name):
    """publish, subscribe, reply, request -> names that the node has now."""
    try:
        found = [
            {topic for topic, _ in look(name, "/")}
            for look in (
                node.get_publisher_names_and_types_by_node,
                node.get_subscriber_names_and_types_by_node,
                node.get_service_names_and_types_by_node,
                node.get_client_names_and_types_by_node,
            )
        ]
    except Exception:  # rclpy's error for a node that is not there yet is no public class
        return None
    return [*found[:2], everywhere(found[2]), found[3]]


def everywhere(services):
    return {service for service in services if service.rsplit("/", 1)[-1] not in SOME}


def test_every_node_is_allowed_what_it_does_and_nothing_else(running):
    robot, simulated, node = running
    allowed = security.node_interfaces(robot, sim=True, overlay=True, use_sim_time=simulated)
    assert set(allowed) == set(NODES)
    for name, wanted in allowed.items():
        heard = set(wanted.subscribe - wanted.at_times)
        expected = [set(wanted.publish), heard, everywhere(wanted.reply), set()]
        end = time.monotonic() + PATIENCE
        while (found := seen(node, name)) != expected and time.monotonic() < end:
            time.sleep(0.3)
        assert found == expected, name


def test_the_files_say_what_the_interfaces_are(tmp_path, capsys):
    words = ["security", "--robot", "ur10e_driver", "--domain", "7", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    nodes = security.node_interfaces("ur10e_driver")
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(nodes)
    policy = ElementTree.parse(tmp_path / "policy.xml")
    for name, node in nodes.items():
        profile = policy.find(f".//profile[@node='{name}']")
        listed = {e.text for e in profile.findall("topics[@publish='ALLOW']/topic")}
        assert listed == node.publish
        file = tmp_path / "enclaves" / "phyai" / name / "permissions.xml"
        grant = ElementTree.parse(file).find(".//grant")
        assert grant.find("subject_name").text == f"CN=/phyai/{name}"
        assert grant.find("allow_rule/domains/id").text == "7"
        assert grant.find("default").text == "DENY"
        published = {e.text for e in grant.findall("allow_rule/publish/topics/topic")}
        assert {f"rt{topic}" for topic in node.publish} <= published
        assert not any("*" in topic for topic in published)
    handoff = tmp_path / "enclaves" / "phyai" / "handoff_node" / "permissions.xml"
    assert "rt/scaled_joint_trajectory_controller/joint_trajectory" in handoff.read_text()
    camera = "rt/camera/scene/image_raw"
    assert camera not in handoff.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--robot", "ur99"], "ur99"),
        (["--domain", "900"], "--domain: expected 0 to 232"),
        (["--prefix", "../etc"], "--prefix"),
    ],
)
def test_wrong_words_are_refused(tmp_path, capsys, words, says):
    out = tmp_path / "out"
    try:
        status = cli.main(["security", "--out", str(out), *words])
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert says in capsys.readouterr().err
    assert not out.exists()
