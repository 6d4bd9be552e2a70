# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ROS refuses of a shell's environment is told in a line, by whatever enters ROS."""

import os
import subprocess
import sys

import pytest
from rclpy.context import Context

from phyai_ros.nodes.entering import EnterError, enter
from phyai_ros.nodes.participant import Participant

WORDS = {
    "up": ("phyai_ros.tools", "up", "sim:=true", "duration:=1"),
    "doctor": ("phyai_ros.tools", "doctor"),
    "watch": ("phyai_ros.tools", "watch"),
    "handoff": ("phyai_ros.tools", "handoff", "hold"),
    "record": ("phyai_ros.tools", "record", "--out", "{tmp}/bag"),
    "handoff_node": ("phyai_ros.nodes.handoff_node",),
    "ready": ("phyai_ros.nodes.ready", "policy_node"),
}
NO_HOME = "HOME is not set, below which ROS 2 writes its logs: set it, or ROS_LOG_DIR"
DOMAIN = "ROS_DOMAIN_ID: expected a whole number from 0 to 232, found {!r}: set it so"


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("ROS_DOMAIN_ID", "99")


def end(words, tmp_path, **environment):
    """What a process says, and its status. environment: None takes a variable away."""
    shell = {**os.environ, **environment}
    words = [word.format(tmp=tmp_path) for word in words]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        env={k: v for k, v in shell.items() if v is not None},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stderr.removeprefix("phyai-ros: "), done.returncode


@pytest.mark.parametrize("name", WORDS)
def test_a_process_without_a_home_says_so_in_a_line(name, tmp_path):
    said, status = end(WORDS[name], tmp_path, HOME=None, ROS_HOME=None, ROS_LOG_DIR=None)
    lines = [line for line in said.splitlines() if not line.startswith("recording into")]
    assert (lines, status) == ([f"error: {NO_HOME}"], 1)
    assert list(tmp_path.iterdir()) == []  # no bag that a second try would find in its way


@pytest.mark.parametrize("found", ["abc", "233", "-1"])
@pytest.mark.parametrize("name", ["up", "handoff_node", "ready"])
def test_a_domain_that_is_none_is_refused_in_a_line(name, found, tmp_path):
    """Of 233 Fast DDS ends the process, in its own words."""
    said, status = end(WORDS[name], tmp_path, ROS_DOMAIN_ID=found)
    assert (said, status) == (f"error: {DOMAIN.format(found)}\n", 1)


@pytest.mark.parametrize("found", ["", "0", "232", "0x10"])
def test_domains_that_ros_takes_are_taken(found, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", found)
    context = Context()
    enter(context, [])
    assert context.get_domain_id() == int(found or "0", 0)
    context.shutdown()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ROS_LOG_DIR": "/proc/none"}, r"create log directory '/proc/none'.*: set ROS_LOG_DIR to"),
        ({"ROS_SECURITY_ENABLE": "true", "ROS_SECURITY_STRATEGY": "Enforce"}, r"_KEYSTORE is not"),
        (
            {"ROS_SECURITY_ENABLE": "true", "ROS_SECURITY_KEYSTORE": "/nowhere"},
            r"ROS 2 does not start here: .*/nowhere/enclaves' does not exist\.$",
        ),
    ],
)
def test_what_ros_refuses_is_told_and_a_second_try_goes_well(changed, says, monkeypatch):
    with monkeypatch.context() as shell:
        for name, value in {"ROS_SECURITY_STRATEGY": "Enforce", **changed}.items():
            shell.setenv(name, value)
        with pytest.raises(EnterError, match=says):
            Participant("tool")
    with Participant("tool") as here:
        assert here.node.context.ok()


def test_words_that_ros_does_not_know():
    with pytest.raises(EnterError, match="--nope"):
        enter(Context(), ["--ros-args", "--nope"])
