# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The middleware's settings in this shell, which is most often the nodes' too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from phyai_ros.nodes.transport import asks_for_types, profile_variable
from phyai_ros.tools.doctoring.findings import Finding, error, warning
from phyai_ros.tools.doctoring.listen import Heard
from phyai_ros.tools.doctoring.sensors import LARGE

_LEAST_FREE = 64 * 1024 * 1024


def settings(rmw: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What decides who hears whom, by name."""
    variable = profile_variable(environment)
    return {
        "middleware": rmw,
        "ROS_DOMAIN_ID": environment.get("ROS_DOMAIN_ID") or "0",
        "ROS_AUTOMATIC_DISCOVERY_RANGE": environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET"),
        variable: environment.get(variable, "none"),
    }


def findings(
    heard: Heard, rmw: str, environment: Mapping[str, str] = os.environ, shm: str = "/dev/shm"
) -> list[Finding]:
    if rmw != "rmw_fastrtps_cpp":
        return []
    found = []
    largest = max((s.size for s in heard.cameras.values()), default=0)
    variable = profile_variable(environment)
    profile = environment.get(variable)
    advice = f"export {variable}=<this package's config/fastdds.xml> for every process"
    if profile and not Path(profile).is_file():
        found.append(error("DDS profile", f"{variable}={profile} does not exist", advice))
    elif not profile and largest > LARGE:
        found.append(
            warning(
                "DDS profile",
                f"none, and images are {largest / 1e6:.1f} MB: Fast DDS's default shared memory "
                "holds no such message, most are lost",
                advice,
            )
        )
    elif profile:
        segment = segment_size(Path(profile))
        if segment is not None and largest > segment / 4:
            found.append(
                warning(
                    "DDS profile",
                    f"images are {largest / 1e6:.1f} MB, the shared-memory segment of {profile} is "
                    f"{segment / 1e6:.1f} MB",
                    "raise segment_size in it",
                )
            )
    if not found and asks_for_types(environment):
        found.append(
            warning(
                "DDS profile",
                f"{profile or 'none'}: Fast DDS asks for the definition of every type; where an "
                "answer is lost, a node that was started again never finds that topic",
                advice + ", or its property fastdds.type_propagation=disabled in yours",
            )
        )
    if Path(shm).is_dir() and shutil.disk_usage(shm).free < _LEAST_FREE:
        free = shutil.disk_usage(shm).free / 1e6
        advice = "free it, or start the container with more (docker run --shm-size=1g)"
        found.append(warning("shared memory", f"{shm} has {free:.0f} MB left", advice))
    return found


def segment_size(profile: Path) -> int | None:
    """Bytes of the shared-memory segment a Fast DDS profile asks for, None where it says none."""
    try:
        tree = ElementTree.parse(profile)
    except (OSError, ElementTree.ParseError):
        return None
    for element in tree.iter():
        if element.tag.rsplit("}", 1)[-1] == "segment_size" and element.text:
            return int(element.text)
    return None
