# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Who else commands the arm, by what is heard and what the graph lists."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from phyai_ros.nodes import masters as module
from phyai_ros.nodes.masters import FIRST, LISTED, SETTLE, Masters

TOPIC, OWN, OTHER = "/commands", b"own endpoint", b"another endpoint"


class Node:
    """Its graph, and whoever listens to the topic."""

    def __init__(self) -> None:
        self.listed: dict[bytes, str] = {}
        self.callback = None
        self.asked = 0
        self.sending = True

    def resolve_topic_name(self, topic):
        return topic

    def get_publishers_info_by_topic(self, topic):
        self.asked += 1
        return [
            SimpleNamespace(endpoint_gid=gid, node_namespace="/", node_name=name)
            for gid, name in self.listed.items()
        ]

    def create_subscription(self, kind, topic, callback, profile, raw):
        self.callback = callback

    def destroy_subscription(self, subscription):
        self.callback = None

    def hear(self, gid: bytes) -> None:
        self.callback(b"", {"publisher_gid": {"data": gid}})


@pytest.fixture
def cell():
    node, said = Node(), []
    kind = [(TOPIC, "std_msgs/msg/Float64MultiArray")]
    masters = Masters(node, kind, said.append, lambda: node.sending)
    node.listed[OWN] = "handoff_node"
    masters.own()
    masters.look()
    return node, masters, said


def test_a_node_does_not_take_itself_for_another_master(cell):
    node, masters, said = cell
    node.hear(OWN)
    assert (said, masters.heard()) == ([], None)


def test_nor_where_messages_are_marked_in_another_way_than_their_publishers_are_listed(cell):
    """Cyclone DDS marks a message with the reader's handle of its writer: there the first command
    of its own would have been a fault, and the arm would never have moved."""
    node, masters, said = cell
    before = node.asked
    for _ in range(1000):
        node.hear(b"\x07" * 8 + bytes(8))
    assert (said, masters.heard()) == ([], None)
    assert node.asked - before < 10  # the graph is not asked at every message


def test_another_master_is_named_once_it_is_listed(cell):
    node, masters, said = cell
    node.hear(OTHER)
    assert said == []
    node.listed[OTHER] = "moveit"
    masters.look()
    node.hear(OTHER)
    node.hear(OTHER)
    assert len(said) == 1
    assert "/moveit sends commands on /commands too" in said[0]
    masters.forget()
    node.hear(OTHER)
    assert len(said) == 2


def test_one_that_is_discovered_while_the_own_publisher_is_made_is_another_all_the_same():
    """It was taken for the node's own, and the two took turns."""
    node, said = Node(), []
    node.sending = False
    kind = [(TOPIC, "std_msgs/msg/Float64MultiArray")]
    masters = Masters(node, kind, said.append, lambda: node.sending)
    node.listed |= {OWN: "handoff_node", OTHER: "handoff_node"}
    masters.own()
    node.hear(OTHER)
    assert len(said) == 1
    masters.forget()
    node.sending = True
    node.hear(OWN)
    assert len(said) == 1
    node.hear(OTHER)
    assert len(said) == 2


def test_two_outputs_on_one_topic_are_no_two_masters():
    """A driver may tell joints apart by the name in the message: two publishers of one node."""
    node, said = Node(), []
    kind = "interbotix_xs_msgs/msg/JointSingleCommand"
    masters = Masters(node, [(TOPIC, kind)] * 2, said.append, lambda: node.sending)
    second = b"own second endpoint"
    node.listed |= {OWN: "handoff_node", second: "handoff_node", OTHER: "handoff_node"}
    masters.own()
    for gid in (OWN, second, OWN, second):
        masters._on_command(TOPIC, b"", {"publisher_gid": {"data": gid}})
    assert said == []
    masters._on_command(TOPIC, b"", {"publisher_gid": {"data": OTHER}})
    assert len(said) == 1


def test_before_the_first_command_whatever_is_heard_is_anothers(cell):
    """Also where nothing tells who sent it."""
    node, masters, said = cell
    node.sending = False
    node.callback(b"", {})
    assert said == ["another node sends commands on /commands too: two masters make the arm jump"]
    masters.forget()
    node.sending = True
    node.callback(b"", {})
    assert len(said) == 1


@pytest.fixture
def starting(monkeypatch):
    """A node that has sent nothing yet: its graph, its masters, and a way to let time pass."""
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    node = Node()
    masters = Masters(node, [(TOPIC, "std_msgs/msg/Float64MultiArray")], print, lambda: False)
    node.listed[OWN] = "handoff_node"
    masters.own()

    def wait(seconds: float) -> str:
        nonlocal now
        now += seconds
        masters.look()
        return masters.waits_for

    return node, masters, wait


def test_nothing_is_sent_before_others_have_been_listened_for(starting):
    node, masters, wait = starting
    assert "listening" in masters.waits_for
    masters.met()
    assert wait(0.9 * SETTLE)
    assert not wait(0.2 * SETTLE)
    assert Masters(node, [], print, lambda: False).waits_for == "", "a dry run sends nothing"


def test_where_nobody_was_discovered_yet_another_master_was_not_either(starting):
    """On a slow machine discovery took longer than the listening: the second sent commands."""
    node, masters, wait = starting
    assert wait(10 * FIRST)
    assert node.callback is not None
    masters.met()
    assert wait(0.9 * SETTLE)
    assert not wait(0.2 * SETTLE)


def test_one_that_is_listed_gets_its_time_to_be_heard(starting):
    node, masters, wait = starting
    masters.met()
    node.listed[OTHER] = "moveit"
    assert "/moveit" in wait(0.5 * SETTLE)
    assert "/moveit" in wait(0.9 * LISTED)
    assert not wait(0.2 * LISTED)
    node.listed[b"a third"] = "servo"
    assert not wait(0.1), "what has begun is stopped by what is heard alone"


def test_one_that_has_gone_is_not_waited_for(starting):
    node, masters, wait = starting
    masters.met()
    node.listed[OTHER] = "moveit"
    assert wait(SETTLE)
    del node.listed[OTHER]
    assert not wait(0.1)


def test_a_node_that_was_inactive_listens_again(starting):
    node, masters, wait = starting
    masters.met()
    assert not wait(1.1 * FIRST)
    assert not wait(0.25)
    assert node.callback is None
    masters.restart()
    assert masters.waits_for
    assert node.callback is not None, "not only when somebody looks: discovery takes its time"
    assert wait(0.9 * SETTLE)
    assert not wait(0.2 * SETTLE)
