# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A run ends when its duration is over, whatever its episodes do."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from phyai_ros.tools import monitor

DOMAIN = "61"


class Driver:
    """ends: seconds of the run after which the episode is over, and why none follows."""

    def __init__(self, clock, ends, why):
        self._clock, self._ends, self._why = clock, ends, why
        self.announced, self.begun = True, 0

    def begin_first(self):
        pass

    def finished(self):
        return self._clock.now - 100.0 >= self._ends

    def next(self):
        self.begun += 1
        return self._why


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """watch(seconds, ends, why) -> status, how long it ran, the report, what people read."""
    monkeypatch.setenv("ROS_DOMAIN_ID", DOMAIN)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    clock = SimpleNamespace(now=100.0, time=lambda: 5.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(monitor, "time", clock)
    monkeypatch.setattr(monitor._Watch, "_acted", lambda self: True)

    def spin(self, seconds):
        clock.now += seconds
        assert clock.now < 1e4, "for ever"

    monkeypatch.setattr(monitor._Watch, "_spin", spin)

    def run(seconds, ends, why=""):
        driver = Driver(clock, ends, why)
        monkeypatch.setattr(monitor, "EpisodeDriver", lambda *_: driver)
        what = monitor.Run(tmp_path, sim=True, duration=seconds)
        said = io.StringIO()
        status = monitor.run(what, console=Console(file=said, width=200))
        report = json.loads((tmp_path / "report.json").read_text())
        return status, clock.now - 100.0, report, said.getvalue()

    return run


def test_an_episode_under_way_is_finished(watch):
    status, ran, report, _ = watch(8.0, 30.0)
    assert (status, report["problems"]) == (0, [])
    assert ran == pytest.approx(30.0, abs=1.0)


def test_one_that_never_ends_is_cut_off(watch):
    """It ran 630 s of 8, and would have gone on."""
    status, ran, report, _ = watch(8.0, float("inf"))
    assert status == 1
    assert report["problems"] == [
        f"the last episode has not ended {monitor.FINISH:g} s after the duration: cut off"
    ]
    assert ran == pytest.approx(8.0 + monitor.FINISH, abs=1.0)


def test_a_run_whose_next_episode_may_not_begin_says_so_and_ends(watch):
    status, ran, _, said = watch(8.0, 2.0, "held by service, until handoff_node/resume")
    assert status == 0
    assert ran == pytest.approx(8.0, abs=1.0)
    assert said.count("the next episode does not begin: held by service") == 1
