# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether anybody hears a publisher, and why not."""

from __future__ import annotations

from typing import Any

from phyai_ros.nodes import endpoints, qos
from phyai_ros.nodes.message_types import type_name


def trouble(node: Any, publisher: Any, hint: str) -> str | None:
    """Who listens to ``publisher`` in vain, or that nobody does, for people; None if all is well.
    This node's own subscriptions do not count. hint: what to look at where nobody is there."""
    topic = publisher.topic_name
    own = sum(subscription.topic_name == topic for subscription in node.subscriptions)
    me = endpoints.own_name(node)
    found = [e for e in node.get_subscriptions_info_by_topic(topic) if endpoints.full_name(e) != me]
    if in_vain := [text for e in found if (text := _mismatch(e, publisher))]:
        return "; ".join(in_vain)
    if publisher.get_subscription_count() > own:
        return None
    return f"no subscriber on {topic}: {hint}"


def _mismatch(endpoint: Any, publisher: Any) -> str | None:
    """Why the middleware never delivers to a subscription, naming node, type or policy."""
    who = f"subscriber {endpoints.full_name(endpoint)} on {publisher.topic_name}"
    if endpoint.topic_type != (sent := type_name(publisher.msg_type)):
        return f"{who} expects {endpoint.topic_type}, this node sends {sent}"
    offered = publisher.qos_profile
    reason = qos.incompatibility(offered.reliability, offered.durability, endpoint.qos_profile)
    return f"{who} has incompatible QoS, {reason}" if reason else None
