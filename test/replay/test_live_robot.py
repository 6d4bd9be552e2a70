# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The nodes that listen to a played bag listen to the topics that it has."""

from pathlib import Path

import pytest

from phyai_ros import robots
from phyai_ros.bags.reader import Bag, BagError
from phyai_ros.replay.live_robot import as_recorded

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "bags" / "gr00t"


def test_pictures_recorded_compressed_are_listened_to(tmp_path):
    path = as_recorded("ur10e", GOLDEN, tmp_path)
    before, after = robots.load("ur10e"), robots.load(path)
    with Bag(GOLDEN) as bag:
        assert {camera.topic for camera in after.cameras.values()} < set(bag.topics)
    for role, camera in before.cameras.items():
        assert after.cameras[role].topic == f"{camera.topic}/compressed"
        assert after.cameras[role].max_age == camera.max_age
    assert after.name == before.name
    assert after.joint_state_topics == before.joint_state_topics


def test_a_robot_that_fits_stays_as_it_is(tmp_path):
    path = as_recorded("ur10e", GOLDEN, tmp_path)
    (tmp_path / "again").mkdir()
    assert as_recorded(path, GOLDEN, tmp_path / "again") == path
    assert not list((tmp_path / "again").iterdir())


def test_a_bag_of_another_robot_is_refused_with_what_it_has(tmp_path):
    with pytest.raises(BagError) as caught:
        as_recorded("aloha", GOLDEN, tmp_path)
    for part in ("/camera/cam_high/image_raw", "aloha.yaml: cameras.cam_high.topic", "/scene"):
        assert part in str(caught.value)
