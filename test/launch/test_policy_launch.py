# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""policy.launch.py for real: the graph moves the simulated arm, and a killed policy comes back."""

import os
import signal
import unittest
from pathlib import Path

import pytest

pytest.importorskip(
    "launch_testing",
    reason="launch_testing is not installed: it is part of a ROS 2 installation, not of the wheels",
)

import launch_testing.actions
import launch_testing.markers
from launch.actions import IncludeLaunchDescription, SetEnvironmentVariable
from launch.launch_description_sources import PythonLaunchDescriptionSource
from listening import Listening

from launch import LaunchDescription
from phyai_ros.msg import HandoffState

LAUNCH_FILE = Path(__file__).resolve().parents[2] / "launch" / "policy.launch.py"


@pytest.mark.launch_test
@launch_testing.markers.keep_alive
def generate_test_description():
    arguments = {"sim": "true", "instruction": "reach the green block", "overlay": "true"}
    return LaunchDescription(
        [
            SetEnvironmentVariable("ROS_DOMAIN_ID", str(TestGraph.DOMAIN)),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(LAUNCH_FILE)),
                launch_arguments=arguments.items(),
            ),
            launch_testing.actions.ReadyToTest(),
        ]
    )


class TestGraph(Listening, unittest.TestCase):
    DOMAIN = 83

    def test_the_arm_moves_and_a_killed_policy_comes_back(self, proc_info):
        self.executing()
        (policy,) = [name for name in proc_info.process_names() if "policy_node" in name]
        os.kill(proc_info[policy].pid, signal.SIGKILL)
        self.wait_for(
            "the handoff never noticed",
            lambda: self.states and self.states[-1].state != HandoffState.EXECUTING,
        )
        self.executing()


@launch_testing.post_shutdown_test()
class TestAfterwards(unittest.TestCase):
    def test_every_process_ended_cleanly_but_the_one_that_was_killed(self, proc_info):
        codes = {name: proc_info[name].returncode for name in proc_info.process_names()}
        killed = [name for name, code in codes.items() if code == -signal.SIGKILL]
        self.assertEqual(len(killed), 1, codes)
        self.assertIn("policy_node", killed[0])
        self.assertEqual({c for name, c in codes.items() if name not in killed}, {0}, codes)
