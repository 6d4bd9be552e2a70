# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A killed process stays in the ROS graph for a while; it is no rival of the one that follows."""

from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.nodes.ghosts import LEASE, RECENT, Endpoint, Living

OLD, NEW = Endpoint("/policy_node", b"old"), Endpoint("/policy_node", b"new")
OTHER = Endpoint("/other", b"other")
OWN, BEFORE = Endpoint("/handoff_node", b"own"), Endpoint("/handoff_node", b"before")


def test_a_restarted_policy_is_one_policy():
    living = Living()
    assert living.count([OLD], {b"old": 10.0}, 10.0) == 1
    assert living.count([OLD, NEW], {b"old": 10.0}, 16.0) == 1
    assert living.count([OLD, NEW], {b"old": 10.0, b"new": 17.0}, 17.0) == 1
    assert living.count([NEW], {b"new": 40.0}, 40.0) == 1


def test_two_of_one_name_that_both_answer_are_two_at_once():
    living = Living()
    assert living.count([OLD, NEW], {b"old": 10.0, b"new": 9.0}, 10.0) == 2


def test_two_of_one_name_are_two_when_a_killed_one_would_be_gone():
    living = Living()
    assert living.count([OLD, NEW], {b"new": 10.0}, 10.0) == 1
    assert living.count([OLD, NEW], {b"new": 10.0 + LEASE}, 10.0 + LEASE) == 2


def test_one_of_another_name_is_another_at_once():
    assert Living().count([OLD, OTHER], {}, 10.0) == 2


def test_the_node_itself_and_its_killed_predecessor():
    living = Living("/handoff_node")
    assert living.count([BEFORE, OWN], {}, 10.0) == 1
    assert living.count([BEFORE, OWN], {}, 10.0 + LEASE) == 2, "it never went: it is alive"


def test_a_second_master_of_the_same_name_that_comes_later_is_said_at_once():
    living = Living("/handoff_node")
    assert living.count([OWN], {}, 10.0) == 1
    assert living.count([OWN, BEFORE], {}, 10.25) == 2


@given(
    st.lists(st.sampled_from([OLD, NEW, OTHER, OWN, BEFORE]), unique=True),
    st.dictionaries(st.sampled_from([b"old", b"new", b"own"]), st.floats(0.0, 10.0)),
)
def test_never_more_than_there_are_and_never_none_of_some(found, heard):
    for own in ("", "/handoff_node"):
        living = Living(own)
        count = living.count(found, heard, 10.0)
        names = {e.node for e in found}
        assert len(names) <= count <= len(found)
        lately = {e for e in found if 10.0 - heard.get(e.gid, -RECENT) <= RECENT}
        if not own:
            assert count >= len(lately)
