# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Publishers and subscriptions as the ROS graph lists them."""

from __future__ import annotations

from typing import Any


def full_name(endpoint: Any) -> str:
    """Namespace and name of the node of an rclpy.topic_endpoint_info.TopicEndpointInfo."""
    return f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}"


def own_name(node: Any) -> str:
    """The same of a node of this process."""
    return f"{node.get_namespace().rstrip('/')}/{node.get_name()}"


def is_named(name: str) -> bool:
    """Whether the graph knows the node of that full name: an endpoint is listed before it."""
    return "_UNKNOWN_" not in name


def publishers(node: Any, topic: str) -> dict[bytes, str]:
    """gid -> full name of the node, of every publisher of a topic."""
    found = node.get_publishers_info_by_topic(topic)
    return {bytes(endpoint.endpoint_gid): full_name(endpoint) for endpoint in found}
