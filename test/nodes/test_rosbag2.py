# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest

from phyai_ros.nodes.rosbag2 import CLOCK_RATE, play_command


@pytest.mark.parametrize(
    ("distribution", "clock"),
    [
        ("humble", ["--clock", CLOCK_RATE]),  # its ros2 bag play knows no other
        ("jazzy", ["--clock-topics-all"]),
        ("kilted", ["--clock-topics-all"]),
    ],
)
def test_the_bags_time_is_played_in_the_words_of_each_distribution(distribution, clock):
    words = play_command("bags/monday", "0.5", ["/a", "/b"], {"ROS_DISTRO": distribution})
    assert words[:6] == ["ros2", "bag", "play", "bags/monday", "--rate", "0.5"]
    assert words[6 : 6 + len(clock)] == clock
    # Of many words each, the topics are last: they would take in whatever follows.
    assert words[6 + len(clock) :] == ["--topics", "/a", "/b"]
