# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What each distribution's middleware is told, and that a simulated robot stays at home."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from phyai_ros.nodes import transport

OLD, NEW = "FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"
DOMAIN = "92"


@pytest.mark.parametrize(
    ("distribution", "variable"), [("humble", OLD), ("jazzy", OLD), ("kilted", NEW), (None, NEW)]
)
def test_the_profile_is_given_by_the_name_that_the_distribution_reads(distribution, variable):
    environment = {"ROS_DISTRO": distribution} if distribution else {}
    found = transport.settings(local=False, environment=environment)
    assert set(found) == {variable}
    assert found[variable].endswith("/fastdds.xml")


@pytest.mark.parametrize("distribution", ["jazzy", "kilted"])
def test_since_iron_one_variable_keeps_the_traffic_at_home(distribution):
    found = transport.settings(local=True, environment={"ROS_DISTRO": distribution})
    assert found["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert "ROS_LOCALHOST_ONLY" not in found, "deprecated there, and it would win"


@pytest.mark.parametrize(
    ("more", "file", "only"),
    [
        ({}, "fastdds_localhost.xml", False),
        ({"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}, "fastdds_localhost.xml", True),
        ({OLD: "/mine.xml"}, "fastdds_localhost.xml", True),
    ],
    ids=["fast dds", "another middleware", "a profile of the user's"],
)
def test_humble_has_a_profile_for_that_and_another_variable(more, file, only):
    found = transport.settings(local=True, environment={"ROS_DISTRO": "humble", **more})
    assert found[OLD].endswith(file)
    assert ("ROS_LOCALHOST_ONLY" in found) is only


def elements(name):
    root = ElementTree.parse(transport.config_path(name)).getroot()
    return [(e.tag.rsplit("}")[-1], (e.text or "").strip()) for e in root.iter()]


def test_the_two_profiles_differ_in_the_whitelist_alone():
    local = elements("fastdds_localhost.xml")
    listed = [("interfaceWhiteList", ""), ("address", "127.0.0.1")]
    assert [e for e in local if e not in listed] == elements("fastdds.xml")
    assert all(e in local for e in listed)


LISTENER = """
import os, rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("listener")
got = []
node.create_subscription(String, "said", lambda m: got.append(m.data), 10)
talker = node.create_publisher(String, "answer", 10)
inodes = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
          if os.path.exists(f"/proc/self/fd/{fd}")}
lines = [line.split() for line in open("/proc/self/net/udp").readlines()[1:]]
print(*sorted({f[1].split(":")[0] for f in lines if f"socket:[{f[9]}]" in inodes}), flush=True)
left = 20
while left:  # the other may not have heard yet when this one has
    rclpy.spin_once(node, timeout_sec=0.1)
    talker.publish(String(data="heard" if got else "here"))
    left -= "heard" in got
print("heard here", flush=True)
"""


def sockets(profile):
    """Addresses, in /proc's hexadecimal, to which a node under a profile binds UDP sockets; it
    ends when it has heard a word from here, under the same profile."""
    environment = {**os.environ, "ROS_DOMAIN_ID": DOMAIN, NEW: str(transport.config_path(profile))}
    environment.pop("ROS_AUTOMATIC_DISCOVERY_RANGE", None)
    talker = LISTENER.replace('"listener"', '"talker"').replace('"said"', '"x"')
    talker = talker.replace('"answer"', '"said"').replace('"x"', '"answer"')
    ends = [
        subprocess.Popen([sys.executable, "-c", text], env=environment, stdout=subprocess.PIPE)
        for text in (LISTENER, talker)
    ]
    said = []
    try:
        for end in ends:
            said.append(end.communicate(timeout=60)[0].decode().splitlines())
            assert end.returncode == 0
    finally:
        for end in ends:
            end.kill()
    assert all("heard here" in lines for lines in said)
    return set(said[0][0].split())


def test_on_humble_a_simulated_robots_sockets_are_this_hosts():
    """Fast DDS opens a socket an address; 0100007F is 127.0.0.1, what begins with EF multicast."""
    everywhere, here = sockets("fastdds.xml"), sockets("fastdds_localhost.xml")
    assert "00000000" in everywhere, everywhere
    assert here
    assert not here & {"00000000"}, here
    assert all(address.endswith(("7F", "EF")) for address in here), here
