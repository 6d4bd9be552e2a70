# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A node finds every topic of the graph it comes into, also after a crash.

Fast DDS 3 hides an endpoint until the definition of its type has been fetched from the other
side, and fetches once: an answer that is lost leaves the topic undiscovered for ever. A robot
stood after a restart. The profiles turn it off; with it on, every other newcomer here misses some.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phyai_ros.nodes import transport

DOMAIN = 94
TYPE_LOOKUP = 0b1111 << 12
"""Writers and readers of requests and of replies: bits of the parameter BuiltinEndpointSet that
each participant announces (DDS-XTypes 1.3, the type lookup service)."""
ENDPOINT_SET = struct.pack("<HH", 0x58, 4)


def environment(profile):
    return {
        **os.environ,
        "ROS_DOMAIN_ID": str(DOMAIN),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "FASTDDS_DEFAULT_PROFILES_FILE": str(transport.config_path(profile)),
    }


def test_newcomers_beside_a_killed_process_find_every_topic():
    script = Path(__file__).parent / "newcomers.py"
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment("fastdds.xml"),
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    missed = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(missed) == 9
    assert missed == [[]] * 9


def announced_endpoints(profile):
    """The bits of the built-in endpoints that a node under a profile has. It announces itself to
    the first few participants that may be on this host; here we are one."""
    port = 7400 + 250 * DOMAIN + 10 + 2 * 3  # RTPS 2.5, section 9.6.2.3: participant 3's
    node = subprocess.Popen(
        [sys.executable, "-c", "import rclpy; rclpy.init(); rclpy.spin(rclpy.create_node('here'))"],
        env=environment(profile),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", port))
        receiver.settimeout(60)
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                message = receiver.recv(65535)
                at = message.find(ENDPOINT_SET)
                if message.startswith(b"RTPS") and at >= 0:
                    return struct.unpack_from("<I", message, at + len(ENDPOINT_SET))[0]
        finally:
            node.kill()
            node.wait()
    raise AssertionError("no participant was announced")


@pytest.mark.parametrize("profile", ["fastdds.xml", "fastdds_localhost.xml"])
def test_nobody_is_asked_for_the_definition_of_a_type(profile):
    endpoints = announced_endpoints(profile)
    assert endpoints & 0b111111 == 0b111111, "participants, publications, subscriptions"
    assert endpoints & TYPE_LOOKUP == 0, f"{endpoints:#x}"
