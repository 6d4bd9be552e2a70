# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the launch files tell of their arguments, and what they refuse."""

import pytest

from phyai_ros.nodes import graph

POLICY, REPLAY = "policy.launch.py", "replay.launch.py"


def test_show_args_describes_every_argument(launch):
    result = launch(POLICY, "--show-args")
    assert result.returncode == 0, result.stderr
    for argument in graph.ARGUMENTS:
        assert f"'{argument.name}':" in result.stdout
        assert argument.description in result.stdout
    assert "Valid choices are: ['cpu', 'cuda', 'auto']" in result.stdout


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("robot:=r2d2", "ur10e"),
        ("model:=nothing", "gr00t"),
        ("device:=tpu", "cuda"),
        ("seed:=x", "a whole number from 0"),
    ],
)
def test_an_unknown_value_is_answered_with_what_exists(launch, word, named):
    result = launch(POLICY, word)
    assert result.returncode != 0
    assert named in result.stdout + result.stderr


def test_a_pair_that_does_not_fit_starts_no_process(launch):
    result = launch(POLICY, "model:=act", "robot:=ur10e", "sim:=true")
    said = result.stdout + result.stderr
    assert result.returncode != 0
    assert said.count("do not go together") == 1
    assert "robot:=aloha" in said
    assert "process started" not in said


def test_a_node_that_fails_gives_the_launch_its_status_and_is_told_once(launch):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    result = launch(POLICY, "sim:=true", "device:=cuda")
    said = result.stdout + result.stderr
    assert result.returncode != 0
    assert said.count("configure failed") == 1
    assert said.count("policy_node ended with status 1") == 1


def test_a_replay_tells_of_the_bag_and_of_the_policys_arguments(launch):
    result = launch(REPLAY, "--show-args")
    assert result.returncode == 0, result.stderr
    for name in ("bag", "rate", "start_delay", "checkpoint", "precision", "handoff"):
        assert f"'{name}':" in result.stdout


def test_a_replay_without_a_bag_says_so(launch):
    result = launch(REPLAY)
    assert result.returncode != 0
    assert "bag" in result.stdout + result.stderr
