# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""policy.launch.py with ALOHA and ACT, as the README has it: no instruction, the arms move."""

import json
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
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from launch import LaunchDescription
from phyai_ros.nodes import qos

LAUNCH_FILE = Path(__file__).resolve().parents[2] / "launch" / "policy.launch.py"


@pytest.mark.launch_test
@launch_testing.markers.keep_alive
def generate_test_description():
    arguments = {"model": "act", "robot": "aloha", "sim": "true"}
    return LaunchDescription(
        [
            SetEnvironmentVariable("ROS_DOMAIN_ID", str(TestArms.DOMAIN)),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(LAUNCH_FILE)),
                launch_arguments=arguments.items(),
            ),
            launch_testing.actions.ReadyToTest(),
        ]
    )


class TestArms(Listening, unittest.TestCase):
    DOMAIN = 99

    def setUp(self):
        super().setUp()
        self.joints, self.episodes, self.tasks = [], [], []
        listen = self.node.create_subscription
        listen(JointState, "joint_states", self.joints.append, qos.joint_states())
        listen(String, "sim/episode", self.episodes.append, qos.episode())
        listen(String, "instruction", self.tasks.append, qos.instruction())

    def test_the_right_arm_moves_and_the_episode_has_an_end(self):
        self.executing()
        start = dict(zip(self.joints[0].name, self.joints[0].position, strict=True))

        def moved():
            now = dict(zip(self.joints[-1].name, self.joints[-1].position, strict=True))
            return max(abs(now[n] - start[n]) for n in now if n.startswith("right_")) > 0.1

        self.wait_for("the right arm never moved", moved)
        self.wait_for("the episode had no end", lambda: self.events()[-1]["event"] == "end")
        self.assertEqual({task.data for task in self.tasks}, {self.events()[0]["instruction"]})

    def events(self):
        return [json.loads(message.data) for message in self.episodes]


@launch_testing.post_shutdown_test()
class TestAfterwards(unittest.TestCase):
    def test_every_process_ended_cleanly(self, proc_info):
        codes = {name: proc_info[name].returncode for name in proc_info.process_names()}
        self.assertEqual(len(codes), 3)
        self.assertEqual(set(codes.values()), {0}, codes)
