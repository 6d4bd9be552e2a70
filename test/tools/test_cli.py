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


CTRL_C = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

MODULE = sys.argv.pop()
from phyai_ros.tools.entry import main
sys.meta_path.insert(0, CtrlC())
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["phyai_ros.tools.cli", "phyai_ros.tools.up", "numpy"])
def test_ctrl_c_while_it_imports_is_quiet(module):
    result = subprocess.run(
        [sys.executable, "-c", CTRL_C, "up", module], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if {name, name.partition(".")[0]} & ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ABSENT = set(sys.argv.pop().split(","))
sys.meta_path.insert(0, Absent())
from phyai_ros.tools.entry import main
sys.exit(main())
"""


def without(package, *words):
    words = [sys.executable, "-c", WITHOUT, *words, package]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("package", "says", "words"),
    [
        ("mujoco", "pip install mujoco", ["study", "--checkpoint", "expert"]),
        ("matplotlib", "pip install matplotlib", ["study", "--checkpoint", "expert"]),
        ("rosbags", "pip install rosbags", ["roofline", "--report", "report.json"]),
        ("rclpy", "needs ROS 2", ["watch"]),
        ("diagnostic_msgs", "needs ROS 2", ["watch"]),
        ("phyai_ros.msg", "make msgs", ["watch"]),
        ("rclpy", "needs ROS 2", ["doctor"]),
    ],
)
def test_a_package_that_is_missing_is_said_in_one_sentence(package, says, words):
    result = without(package, *words)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"phyai-ros: error: {words[0]} needs ")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_info_and_check_need_none_of_them(tmp_path):
    absent, given = "rclpy,mujoco,matplotlib,rosbags", ["--checkpoint", "gr00t_ur10e_small"]
    assert without(absent, "info", *given).returncode == 0
    check = without(absent, "check", *given, "--batch", "1", "--json", str(tmp_path / "c.json"))
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_there(name):
    module = importlib.import_module(f"phyai_ros.tools.{name.replace('-', '_')}")
    assert callable(module.main)
