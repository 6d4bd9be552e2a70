# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
from phyai_ros.nodes.diagnostics import OK, WARN
from phyai_ros.tools.process_status import RECENT, status
from phyai_ros.tools.recording import Crash

POLICY = Crash("policy_node", 100.0, "was killed by SIGKILL")
HANDOFF = Crash("handoff_node", 101.0, "was killed by SIGSEGV")


def test_nothing_happened():
    assert (status([], 100.0).level, status([], 100.0).message) == (OK, "ok")


def test_each_death_is_a_warning_for_a_while_and_then_a_count():
    told = status([POLICY, HANDOFF], 102.0)
    assert told.level == WARN
    assert "policy_node was killed by SIGKILL and is started again (restart 1)" in told.message
    assert "handoff_node was killed by SIGSEGV" in told.message
    later = status([POLICY, HANDOFF], 101.0 + RECENT)
    assert (later.level, later.message) == (OK, "2 restarts")
    assert later.values["restarts of policy_node"] == 1


def test_the_second_death_of_one_process_is_another_message():
    again = Crash("policy_node", 103.0, POLICY.how)
    assert status([POLICY], 102.0).message != status([POLICY, again], 103.5).message
