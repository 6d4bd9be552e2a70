# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The doctor's numbers of a stream, and what it says of the middleware's settings."""

import math

import pytest

from phyai_ros import robots
from phyai_ros.control.states import State
from phyai_ros.nodes import transport
from phyai_ros.tools.doctoring import control, middleware, report
from phyai_ros.tools.doctoring.findings import error
from phyai_ros.tools.doctoring.listen import Heard
from phyai_ros.tools.doctoring.samples import Samples, skew


def stream(stamps, arrived=None, delay=0.01):
    arrived = stamps if arrived is None else arrived
    now = [stamp + delay for stamp in stamps]
    return Samples("/t", "camera a", "x", list(arrived), now, list(now), list(stamps))


def every(period, count, start=100.0):
    return [start + period * i for i in range(count)]


def test_rate_jitter_and_loss_of_a_steady_stream_with_holes():
    steady = stream(every(0.1, 50))
    assert steady.rate == pytest.approx(10.0)
    assert steady.jitter == pytest.approx(0.0, abs=1e-9)
    assert steady.lost == pytest.approx(0.0)
    holes = stream([t for i, t in enumerate(every(0.1, 50)) if i % 5 != 3])
    assert holes.lost == pytest.approx(0.2, abs=0.02)
    assert holes.longest_gap == pytest.approx(0.2)


def test_of_too_few_messages_nothing_is_claimed():
    for few in (stream([]), stream([100.0])):
        assert math.isnan(few.rate)
        assert math.isnan(few.jitter)
        assert math.isnan(few.lost)


def test_the_offset_is_the_least_age():
    samples = stream(every(0.1, 10))
    samples.now = [stamp - 0.5 + 0.01 * i for i, stamp in enumerate(samples.stamps)]
    assert samples.offset == pytest.approx(-0.5)
    assert samples.age == pytest.approx(-0.455)


def test_stamps_that_stand_still_or_go_back():
    assert stream([5.0] * 5).same_stamp
    assert not stream([0.0] * 5).same_stamp
    assert stream([1.0, 2.0, 0.0, 1.5, 3.0]).backward == 1
    assert stream([1.0, 0.0]).zero_stamps == 1
    assert stream([12.0]).simulated
    assert not stream([1.7e9]).simulated


def test_skew_is_to_the_nearest():
    assert skew(stream(every(0.1, 20)), stream(every(0.1, 20, 100.03))) == pytest.approx(0.03)
    assert skew(stream(every(0.1, 20)), stream(every(0.02, 100))) == pytest.approx(0.0, abs=1e-9)
    assert math.isnan(skew(stream([]), stream([1.0])))


def heard(size):
    camera = stream(every(0.1, 20))
    camera.size = size
    return Heard(cameras={"scene": camera})


def findings(size, environment, tmp_path, rmw="rmw_fastrtps_cpp"):
    found = middleware.findings(heard(size), rmw, environment, shm=str(tmp_path / "none"))
    return [f.found for f in found]


def test_large_images_without_a_profile(tmp_path):
    assert "none, and images are 0.9 MB" in findings(921_600, {}, tmp_path)[0]
    assert findings(230_000, {"ROS_DISTRO": "jazzy"}, tmp_path) == []
    (found,) = findings(230_000, {}, tmp_path)
    assert "never finds that topic" in found
    assert findings(921_600, {}, tmp_path, rmw="rmw_cyclonedds_cpp") == []


def test_profiles(tmp_path):
    ours = str(transport.config_path("fastdds.xml"))
    name = "FASTDDS_DEFAULT_PROFILES_FILE"
    assert findings(921_600, {name: ours}, tmp_path) == []
    assert middleware.segment_size(transport.config_path("fastdds.xml")) == 32 * 1024 * 1024
    assert "does not exist" in findings(921_600, {name: "/no/such.xml"}, tmp_path)[0]
    small = tmp_path / "small.xml"
    small.write_text("<dds><segment_size>1000000</segment_size></dds>")
    assert "segment" in findings(921_600, {name: str(small)}, tmp_path)[0]
    silent = tmp_path / "silent.xml"
    silent.write_text("<dds><segment_size>33554432</segment_size></dds>")
    (found,) = findings(921_600, {name: str(silent)}, tmp_path)
    assert "asks for the definition of every type" in found
    old = {"ROS_DISTRO": "humble", "FASTRTPS_DEFAULT_PROFILES_FILE": str(silent)}
    assert findings(921_600, old, tmp_path) == []
    broken = tmp_path / "broken.xml"
    broken.write_text("<dds>")
    assert middleware.segment_size(broken) is None


def said(*states, reason="held by service: hold"):
    """The doctor's report of a graph in which nothing but the handoff's state was heard."""
    from phyai_ros.msg import HandoffState
    from phyai_ros.tools.doctoring.listen import _on_state

    samples = stream(every(0.05, len(states)))
    for state in states:
        _on_state(samples, HandoffState(state=int(state), reason=reason))
    heard = Heard(states=samples)
    return heard, control.state(robots.load("ur10e"), heard)


def test_one_moment_between_two_episodes_is_no_standstill():
    heard, (finding,) = said(*[State.EXECUTING] * 90, *[State.HOLDING] * 10)
    assert report.drives(heard, [finding])
    assert finding.level.value == "warning"
    assert "after 90 driven ticks of 100" in finding.found
    cause = error("camera scene", "no message", "start it")
    assert not report.drives(heard, [finding, cause])


def test_an_arm_that_never_acted_or_ends_in_a_fault_does_not_move():
    heard, found = said(*[State.HOLDING] * 100)
    assert not report.drives(heard, found)
    assert found[0].blocks
    heard, found = said(*[State.EXECUTING] * 90, State.FAULT)
    assert not report.drives(heard, found)
