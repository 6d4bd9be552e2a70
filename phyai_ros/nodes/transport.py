# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the middleware of each distribution must be told through the environment. No rclpy here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from phyai_ros.robots import config_files

_FAST_DDS_2 = ("humble", "jazzy")
"""Their Fast DDS (2.6, 2.14) reads another variable; version 3.0 renamed it (its versions.md)."""


def profile_variable(environment: Mapping[str, str] = os.environ) -> str:
    """Names the file with Fast DDS's profiles, in this distribution."""
    old = environment.get("ROS_DISTRO") in _FAST_DDS_2
    return "FASTRTPS_DEFAULT_PROFILES_FILE" if old else "FASTDDS_DEFAULT_PROFILES_FILE"


def settings(*, local: bool, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables by name, for processes that have not set them already.

    local: nothing may leave this host. Since Iron, rmw has a variable for that which leaves a
    profile's transports alone. Humble's ROS_LOCALHOST_ONLY adds transports of its own beside them,
    and a UDP transport of the profile would go on talking to the network; so there the profile
    itself stays at home, and the variable is for other middlewares and profiles.
    """
    variable = profile_variable(environment)
    found = {}
    humble = environment.get("ROS_DISTRO") == "humble"
    profile = config_path("fastdds_localhost.xml" if local and humble else "fastdds.xml")
    if profile is not None:
        found[variable] = str(profile)
    if local:
        found["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        ours = environment.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp").startswith("rmw_fastrtps")
        if humble and not (ours and profile is not None and variable not in environment):
            found["ROS_LOCALHOST_ONLY"] = "1"
    return found


def asks_for_types(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a Fast DDS of these variables hides a topic until its type has been fetched: it does
    since 3.0, unless its profile says otherwise."""
    if environment.get("ROS_DISTRO") in _FAST_DDS_2:
        return False
    profile = environment.get(profile_variable(environment))
    try:
        tree = ElementTree.parse(profile or os.devnull)
    except (OSError, ElementTree.ParseError):
        return True
    for element in tree.iter():
        parts = {child.tag.rsplit("}", 1)[-1]: (child.text or "").strip() for child in element}
        if parts.get("name") == "fastdds.type_propagation":
            return parts.get("value") not in ("disabled", "registration_only")
    return True


def config_path(name: str) -> Path | None:
    """A file directly in ``config``, where this package keeps it."""
    for directory in config_files.config_dirs():
        if (directory / name).is_file():
            return directory / name
    return None
