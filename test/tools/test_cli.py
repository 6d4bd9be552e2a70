# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import importlib
import subprocess
import sys

import pytest

from phyai_ros.tools import cli


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "phyai_ros.tools", *words], capture_output=True, text=True
    )


def test_help_shows_every_command_and_examples():
    result = run("--help")
    assert result.returncode == 0
    for name, text in cli.COMMANDS.items():
        assert name in result.stdout
        assert text in result.stdout
    assert "examples:" in result.stdout


def test_nothing_given_is_answered_with_help():
    result = run()
    assert result.returncode == 2
    assert "commands:" in result.stdout


def test_an_unknown_command_is_answered_with_what_exists():
    result = run("upp")
    assert result.returncode == 2
    assert "there is no command 'upp' (did you mean up?)" in result.stderr


def test_version():
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.strip()


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_there(name):
    module = importlib.import_module(f"phyai_ros.tools.{name.replace('-', '_')}")
    assert callable(module.main)
