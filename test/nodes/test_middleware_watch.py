# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An event thread that has stopped is told from one that pauses."""

import os

import rclpy

from phyai_ros.nodes.middleware_watch import STILL, Rhythm, event_threads

DOMAIN = 39


def learned(period: float = 2.0, steps: int = 12) -> tuple[Rhythm, float]:
    rhythm = Rhythm(0.0, 0)
    for i in range(1, steps + 1):
        assert not rhythm.still(i * period, i)
    return rhythm, steps * period


def looks(rhythm: Rhythm, start: float, until: float, count: int) -> list[float]:
    times = [start + 2.0 * i for i in range(1, 1 + round((until - start) / 2.0))]
    return [rhythm.still(now, count) for now in times]


def test_a_thread_without_a_step_for_long_has_stopped():
    rhythm, now = learned()
    assert not any(looks(rhythm, now, now + STILL, 12))
    assert rhythm.still(now + STILL + 2.0, 12) == STILL + 2.0


def test_one_step_is_enough_to_be_alive():
    rhythm, now = learned()
    looks(rhythm, now, now + STILL, 12)
    assert not rhythm.still(now + STILL + 2.0, 13)
    assert not any(looks(rhythm, now + STILL + 2.0, now + 2 * STILL, 13))


def test_a_thread_whose_rhythm_is_not_known_yet_is_left_alone():
    rhythm, now = learned(steps=4)
    assert not any(looks(rhythm, now, now + 600.0, 4))


def test_a_profile_that_announces_rarely_has_longer_pauses():
    rhythm, now = Rhythm(0.0, 0), 0.0
    for count in range(1, 13):
        assert not any(looks(rhythm, now, now + 12.0, count - 1))
        now += 14.0
        assert not rhythm.still(now, count)
    assert not any(looks(rhythm, now, now + 60.0, 12))
    assert any(looks(rhythm, now + 60.0, now + 80.0, 12))


def test_a_process_that_stood_still_itself_has_seen_nothing():
    rhythm, now = learned()
    assert not rhythm.still(now + 3600.0, 12)
    assert not rhythm.still(now + 3602.0, 12)


def test_a_participants_event_thread_is_found_and_steps(monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    before = event_threads()
    context = rclpy.Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN)
    node = rclpy.create_node("watched", context=context)
    try:
        mine = event_threads().keys() - before.keys()
        assert len(mine) == 1
        (thread,) = mine
        seen = {event_threads()[thread][1]}
        while len(seen) < 3:  # announcements
            seen.add(event_threads()[thread][1])
            os.sched_yield()
    finally:
        node.destroy_node()
        context.try_shutdown()
    assert thread not in event_threads()


def test_nothing_is_watched_where_there_is_no_proc(tmp_path):
    assert event_threads(tmp_path / "none") == {}
