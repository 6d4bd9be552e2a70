# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What is said when policy_node and handoff_node were given different handoff methods."""

import pytest

from phyai_ros.control import methods
from phyai_ros.nodes.handoff_agreement import disagreement


@pytest.mark.parametrize("handoff", methods.NAMES)
@pytest.mark.parametrize("policy", methods.NAMES)
def test_pairs_agree_where_the_solver_does_the_same(handoff, policy):
    same = methods.make(handoff).guidance == methods.make(policy).guidance
    found = disagreement(handoff, policy)
    assert (found is None) == same
    if found is not None:
        assert f"{handoff!r} here and {policy!r} in the policy" in found
        assert "same parameter 'handoff'" in found


@pytest.mark.parametrize(
    ("handoff", "policy", "says"),
    [
        ("rtc_identity", "replace", "not guided, so they join as by 'replace'"),
        ("replace", "rtc_identity", "hold on to the old plan all the same"),
        ("rtc_identity", "seam", "guided in that way"),
        ("rtc_trained", "replace", "not guided, so they join as by 'replace'"),
        ("replace", "of tomorrow", "which is none of"),
        ("replace", "x" * 10_000, "which is none of"),
    ],
)
def test_it_says_what_comes_of_it(handoff, policy, says):
    found = disagreement(handoff, policy)
    assert says in found
    assert len(found) < 300
