# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros security``: SROS 2 access control for the nodes, from the data that starts them."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from phyai_ros import robots
from phyai_ros.nodes import graph
from phyai_ros.nodes.arguments import ArgumentError
from phyai_ros.nodes.interfaces import Interfaces, interfaces
from phyai_ros.tools import console
from phyai_ros.tools.option_types import given_path

_EPILOG = """examples:
  phyai-ros security --robot ur10e_driver --out security
  phyai-ros security --robot my_arm.yaml --out security --domain 7

Writes policy.xml (for: ros2 security create_permission), governance.xml, and for each node the
permissions.xml that follow from it. docs/security.md goes through the steps.
"""
XSI = "http://www.w3.org/2001/XMLSchema-instance"
ElementTree.register_namespace("xsi", XSI)
SCHEMAS = "http://www.omg.org/spec/DDS-SECURITY/20170901/"
VALID = ("2020-05-01T00:00:00", "2036-05-01T00:00:00")
"""Permissions expire; a certificate's own dates are the ones that are meant to be short."""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="phyai-ros security",
        description="Write SROS 2 policies that allow each node what it does and nothing else.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--robot", default="ur10e", help="name or YAML file (%(default)s)")
    parser.add_argument("--sim", action="store_true", help="for the simulated robot as well")
    parser.add_argument("--overlay", action="store_true", help="for overlay:=true as well")
    parser.add_argument("--use-sim-time", action="store_true", help="nodes listen to /clock")
    parser.add_argument("--domain", type=int, default=0, help="ROS_DOMAIN_ID (%(default)s)")
    parser.add_argument("--prefix", default="/phyai", help="of the enclaves (%(default)s)")
    parser.add_argument("--out", type=given_path, required=True, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    options = parser.parse_args(list(words))
    if not 0 <= options.domain <= 232:
        parser.error(f"--domain: expected 0 to 232, found {options.domain}")
    if not re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", options.prefix):
        parser.error(f"--prefix: expected an enclave's path as /phyai, found {options.prefix!r}")
    try:
        nodes = node_interfaces(
            options.robot,
            sim=options.sim,
            overlay=options.overlay,
            use_sim_time=options.use_sim_time,
        )
        files = write(options.out, nodes, options.prefix, options.domain)
    except (robots.RobotError, ArgumentError) as error:
        console.fail(str(error))
        return 2
    except OSError as error:
        console.fail(f"{error.filename}: {error.strerror}")
        return 1
    print(json.dumps([str(f) for f in files]) if options.json else "\n".join(map(str, files)))
    return 0


def node_interfaces(
    robot: str, *, sim: bool = False, overlay: bool = False, use_sim_time: bool = False
) -> dict[str, Interfaces]:
    """Of the graph that ``phyai-ros up`` and the launch file start."""
    chosen = {"sim": sim, "overlay": overlay, "use_sim_time": use_sim_time}
    given = {name: str(value).lower() for name, value in chosen.items()}
    specs = graph.nodes(graph.parse({"robot": robot, **given}))
    return interfaces(
        robots.load(robot), [spec.executable for spec in specs], use_sim_time=use_sim_time
    )


def write(directory: Path, nodes: Mapping[str, Interfaces], prefix: str, domain: int) -> list[Path]:
    """All files; their paths."""
    files = {
        directory / "policy.xml": policy(nodes, prefix),
        directory / "governance.xml": governance(domain),
        **{
            directory / "enclaves" / prefix.strip("/") / name / "permissions.xml": permissions(
                f"{prefix}/{name}", node, domain
            )
            for name, node in nodes.items()
        },
    }
    for path, root in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.indent(root)
        ElementTree.ElementTree(root).write(path, encoding="UTF-8", xml_declaration=True)
    return list(files)


def policy(nodes: Mapping[str, Interfaces], prefix: str) -> Element:
    """SROS 2's own form, version 0.2.0."""
    root = Element("policy", version="0.2.0")
    enclaves = SubElement(root, "enclaves")
    for name, node in nodes.items():
        enclave = SubElement(enclaves, "enclave", path=f"{prefix}/{name}")
        profile = SubElement(SubElement(enclave, "profiles"), "profile", ns="/", node=name)
        for kind, right, names in (
            ("service", "reply", node.reply),
            ("topic", "publish", node.publish),
            ("topic", "subscribe", node.subscribe),
        ):
            group = SubElement(profile, f"{kind}s", {right: "ALLOW"})
            for each in sorted(names):
                SubElement(group, kind).text = each
    return root


def permissions(enclave: str, node: Interfaces, domain: int) -> Element:
    """DDS permissions of one node: everything else is denied. Names: rt, rq and rr are what ROS 2
    puts before topics, requests and replies."""
    root = _dds("permissions")
    grant = SubElement(SubElement(root, "permissions"), "grant", name=enclave)
    SubElement(grant, "subject_name").text = f"CN={enclave}"
    validity = SubElement(grant, "validity")
    SubElement(validity, "not_before").text, SubElement(validity, "not_after").text = VALID
    rule = SubElement(grant, "allow_rule")
    SubElement(SubElement(rule, "domains"), "id").text = str(domain)
    for right, topics in dds_topics(node).items():
        listed = SubElement(SubElement(rule, right), "topics")
        for topic in sorted(topics):
            SubElement(listed, "topic").text = topic
    SubElement(grant, "default").text = "DENY"
    return root


def dds_topics(node: Interfaces) -> dict[str, set[str]]:
    """publish and subscribe -> names as DDS knows them."""
    discovery = "ros_discovery_info"
    replies = {f"rr{service}Reply" for service in node.reply}
    requests = {f"rq{service}Request" for service in node.reply}
    return {
        "publish": {*(f"rt{topic}" for topic in node.publish), *replies, discovery},
        "subscribe": {*(f"rt{topic}" for topic in node.subscribe), *requests, discovery},
    }


def governance(domain: int) -> Element:
    """Nobody joins unauthenticated; discovery and data are encrypted, every topic is checked."""
    root = _dds("governance")
    rule = SubElement(SubElement(root, "domain_access_rules"), "domain_rule")
    SubElement(SubElement(rule, "domains"), "id").text = str(domain)
    for key, value in (
        ("allow_unauthenticated_participants", "false"),
        ("enable_join_access_control", "true"),
        ("discovery_protection_kind", "ENCRYPT"),
        ("liveliness_protection_kind", "ENCRYPT"),
        ("rtps_protection_kind", "SIGN"),
    ):
        SubElement(rule, key).text = value
    topic = SubElement(SubElement(rule, "topic_access_rules"), "topic_rule")
    for key, value in (
        ("topic_expression", "*"),
        ("enable_discovery_protection", "true"),
        ("enable_liveliness_protection", "true"),
        ("enable_read_access_control", "true"),
        ("enable_write_access_control", "true"),
        ("metadata_protection_kind", "ENCRYPT"),
        ("data_protection_kind", "ENCRYPT"),
    ):
        SubElement(topic, key).text = value
    return root


def _dds(kind: str) -> Element:
    schema = f"{SCHEMAS}omg_shared_ca_{kind}.xsd"
    return Element("dds", {f"{{{XSI}}}noNamespaceSchemaLocation": schema})
