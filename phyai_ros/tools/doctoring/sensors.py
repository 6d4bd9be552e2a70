# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Findings about cameras and joint states, and what every stamped stream has in common."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping, Sequence

from phyai_ros.nodes.rivals import joints_twice
from phyai_ros.nodes.transport import profile_variable
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.doctoring.findings import Finding, error, listed, warning
from phyai_ros.tools.doctoring.listen import Heard
from phyai_ros.tools.doctoring.samples import Samples, skew

FUTURE = 0.02
"""Seconds by which a stamp may lie ahead: clocks kept by NTP agree better than this."""
LOST = 0.05
LARGE = 512 * 1024
"""Bytes; a message above this does not fit Fast DDS's default shared-memory segment."""
_TURN = 2.0 * math.pi


def heard_at_all(samples: Samples, topics: Mapping[str, Sequence[str]], key: str) -> list[Finding]:
    """Whether a needed stream comes. key: where its topic stands in the robot's YAML."""
    found = []
    for endpoint in samples.publishers:
        if endpoint.problem:
            found.append(
                error(
                    samples.label,
                    f"{endpoint.node} on {samples.topic}: {endpoint.problem}",
                    f"correct {key} or what {endpoint.node} publishes",
                    blocks=samples.count == 0,
                )
            )
    if not samples.publishers:
        advice = f"start its driver, or correct {key}: {candidates(samples, topics)}"
        found.append(error(samples.label, f"no publisher on {samples.topic}", advice))
    elif samples.count == 0 and not found:
        who = listed([e.node for e in samples.publishers])
        found.append(
            error(
                samples.label,
                f"{who} is on {samples.topic}, but no message came",
                "is it active and triggered? Across machines: same ROS_DOMAIN_ID, "
                "ROS_AUTOMATIC_DISCOVERY_RANGE, firewall and DDS profile?",
            )
        )
    if samples.refusals:
        found.append(
            error(
                samples.label,
                f"{len(samples.refusals)} of {samples.count} messages cannot be used: "
                f"{samples.refusals[-1]}",
                "change what the driver publishes",
                blocks=len(samples.refusals) == samples.count,
            )
        )
    return found


def candidates(samples: Samples, topics: Mapping[str, Sequence[str]]) -> str:
    """Topics of the same type, the most alike first."""
    same = [t for t, types in topics.items() if samples.type in types and t != samples.topic]
    same.sort(key=lambda t: -difflib.SequenceMatcher(None, t, samples.topic).ratio())
    return f"of type {samples.type} there are: {listed(same)}"


def stamped_well(samples: Samples, max_age: float, key: str, clock: bool) -> list[Finding]:
    """Stamps, ages and gaps of a sensor. key: where max_age stands in the robot's YAML."""
    label, found = samples.label, []
    if samples.zero_stamps:
        found.append(
            error(
                label,
                f"{samples.zero_stamps} of {len(samples.stamps)} stamps are zero",
                "its driver must set header.stamp to the time of the measurement",
                blocks=samples.zero_stamps == len(samples.stamps),
            )
        )
    if not samples.stamps or samples.zero_stamps == len(samples.stamps):
        return found
    if samples.same_stamp:
        advice = "the driver repeats an old sample: restart it"
        return [*found, error(label, "every message has the same stamp: frozen", advice)]
    if samples.simulated and not clock:
        found.append(
            error(
                label,
                f"stamps are simulated time ({samples.stamps[-1]:.1f} s), but nothing is on /clock",
                "have the simulator publish /clock, and start with use_sim_time:=true",
            )
        )
    elif samples.offset < -FUTURE:
        found.append(
            error(
                label,
                f"stamps are {-samples.offset:.3f} s in the future: its clock is ahead by at "
                "least that",
                "synchronise the machines' clocks (chrony or PTP), or stamp on this host",
            )
        )
    elif samples.age > max_age:
        transport = _transport(samples)
        found.append(
            error(
                label,
                f"samples are {samples.age:.3f} s old when they come, allowed {max_age:g} s"
                f"{transport}",
                "synchronise clocks (chrony or PTP), make the driver faster, or, if the age is "
                f"real, raise {key}",
            )
        )
    elif samples.longest_gap > max_age:
        found.append(
            warning(
                label,
                f"{samples.longest_gap:.3f} s without a message, allowed age {max_age:g} s",
                f"steady the driver (load, network), or raise {key}",
            )
        )
    if samples.backward:
        found.append(
            warning(
                label,
                f"stamps went backwards {samples.backward} times",
                "one publisher a topic; no bag that loops beside a live driver",
            )
        )
    return found


def _transport(samples: Samples) -> str:
    """Which part of the age is the middleware's, where the publication time tells."""
    if not samples.sent or len(samples.sent) != len(samples.now):
        return ""
    on_the_way = [now - sent for now, sent in zip(samples.now, samples.sent, strict=True)]
    part = sorted(on_the_way)[len(on_the_way) // 2]
    return f" ({part:.3f} s of it on the way)" if 0.0 <= part < samples.age else ""


def cameras(robot: Robot, heard: Heard) -> list[Finding]:
    found = []
    for role, samples in heard.cameras.items():
        camera, key = robot.cameras[role], f"cameras.{role}"
        found += heard_at_all(samples, heard.topics, f"{key}.topic")
        found += stamped_well(samples, camera.max_age, f"{key}.max_age", heard.clock)
        size, encoding = samples.facts.get("size"), samples.facts.get("encoding")
        if camera.size is not None and size is not None and size != camera.size:
            found.append(
                error(
                    samples.label,
                    f"images are {size[1]}x{size[0]}, the YAML says "
                    f"{camera.size[1]}x{camera.size[0]}",
                    f"set the driver's resolution, or {key}.size: [{size[0]}, {size[1]}] if the "
                    "checkpoint takes it",
                )
            )
        if camera.encoding is not None and encoding not in (None, camera.encoding):
            found.append(
                error(
                    samples.label,
                    f"encoding is {encoding}, the YAML says {camera.encoding}",
                    f"change the driver's encoding, or {key}.encoding",
                )
            )
        if samples.lost > LOST:
            large = samples.size > LARGE
            found.append(
                warning(
                    samples.label,
                    f"about {100 * samples.lost:.0f} % of the images do not arrive",
                    f"set {profile_variable()} to this package's config/fastdds.xml for "
                    "every process, or send compressed images"
                    if large
                    else "the machine or the network is overloaded: fewer or smaller images",
                )
            )
        pixels = samples.facts.get("pixels", ())
        if samples.count >= 10 and len(pixels) == 1 and arm_moved(heard):
            advice = "the driver repeats one image: restart it"
            found.append(error(samples.label, "pixels never change, yet the arm moves", advice))
    return [*found, *_skews(robot, heard)]


def _skews(robot: Robot, heard: Heard) -> list[Finding]:
    found = []
    for (_, one), (_, other) in itertools.combinations(heard.cameras.items(), 2):
        apart = skew(*sorted((one, other), key=lambda s: s.count))
        if apart > robot.max_skew:
            found.append(
                error(
                    f"{one.label}, {other.label}",
                    f"nearest images are {apart:.3f} s apart, allowed {robot.max_skew:g} s",
                    "trigger the cameras together, raise their rates, or raise max_skew",
                )
            )
    return found


def arm_moved(heard: Heard) -> bool:
    ranges = [r for s in heard.joints.values() for r in s.facts.get("ranges", {}).values()]
    return any(high - low > 0.02 for low, high in ranges)


def joints(robot: Robot, heard: Heard) -> list[Finding]:
    found: list[Finding] = []
    for samples in heard.joints.values():
        found += heard_at_all(samples, heard.topics, "joint_state_topics")
        found += stamped_well(samples, robot.joint_max_age, "joint_max_age", heard.clock)
        twice = joints_twice(
            samples.topic, len(samples.publishers), list(samples.facts.get("sets", ()))
        )
        if twice:
            advice = "stop one of " + listed([e.node for e in samples.publishers])
            found.append(warning("joints", twice, advice))
        bad = sorted(samples.facts.get("nonfinite", ()))
        if bad:
            advice = "the driver has no reading of them: look at its log"
            found.append(error("joints", f"position is not a number: {listed(bad)}", advice))
    found += _names(robot, heard)
    for samples in heard.joints.values():
        for name, (low, high) in samples.facts.get("ranges", {}).items():
            joint = robot.joints.get(name)
            if joint is None:
                continue
            lower, upper = joint.position
            if low < lower - 1e-3 or high > upper + 1e-3:
                degrees = joint.unit == "rad" and max(abs(low), abs(high)) > 1.5 * _TURN
                found.append(
                    warning(
                        "joints",
                        f"{name} is at {low:.3f} to {high:.3f} {joint.unit}, its limits are "
                        f"{lower:g} to {upper:g}",
                        "the driver seems to send degrees: JointState is in rad"
                        if degrees
                        else f"correct joints.{name}.position: outside it it only moves inwards",
                    )
                )
    return found


def _names(robot: Robot, heard: Heard) -> list[Finding]:
    sent: dict[str, list[str]] = {}
    for topic, samples in heard.joints.items():
        for name in samples.facts.get("names", {}):
            sent.setdefault(name, []).append(topic)
    if not sent:
        return []
    found = []
    missing = [name for name in robot.joint_names if name not in sent]
    extra = [name for name in sent if name not in robot.joints]
    if missing:
        found.append(
            error(
                "joints",
                f"nobody sends {listed(missing)}; besides the expected ones come: {listed(extra)}",
                "start the driver of those joints, add its topic to joint_state_topics, or name "
                "the joints in the YAML as the driver does",
            )
        )
    twice = [name for name, topics in sent.items() if len(topics) > 1 and name in robot.joints]
    if twice:
        advice = "let each joint come from one topic"
        found.append(warning("joints", f"sent on two topics: {listed(twice)}", advice))
    return found
