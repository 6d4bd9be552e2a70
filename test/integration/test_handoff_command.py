# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros handoff``: a person holds a driven arm and lets it go on, without ros2's tools."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from driven_arm import PATIENCE, Driven

from phyai_ros.msg import HandoffState
from phyai_ros.nodes import qos
from phyai_ros.tools import handoff

DOMAIN = 62


@pytest.fixture
def driven():
    made = Driven("ur10e", DOMAIN, 0.2)
    yield made
    made.close()


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "phyai_ros.tools", "handoff", *words],
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_an_arm_is_held_and_goes_on(driven):
    states = []
    listen = driven.node.create_subscription
    listen(HandoffState, "phyai/handoff_state", states.append, qos.handoff_state())

    def until(state):
        end = time.monotonic() + PATIENCE
        while not (states and states[-1].state == state):
            assert time.monotonic() < end, states[-1:]
            time.sleep(0.02)

    driven.until_moving()
    held = run("hold")
    assert (held.returncode, held.stderr) == (0, "")
    assert held.stdout.startswith("/handoff_node/hold: ")
    until(HandoffState.HOLDING)
    assert states[-1].reason == "held by service"
    assert run("resume", "--node", "handoff_node").returncode == 0
    until(HandoffState.EXECUTING)
    epoch = states[-1].epoch
    assert run("reset").returncode == 0
    end = time.monotonic() + PATIENCE
    while states[-1].epoch <= epoch:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_where_nobody_is_it_says_that_nothing_was_done(monkeypatch, capsys):
    monkeypatch.setattr(handoff, "PATIENCE", 0.2)
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    assert handoff.main(["hold", "--node", "/left/handoff_node"]) == 1
    said = capsys.readouterr().err
    assert "/left/handoff_node/hold is not there" in said
    assert "NOTHING was done" in said


@pytest.mark.parametrize("words", [["brake"], ["hold", "--node", "a b"], []])
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as ended:
        handoff.main(words)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err
