# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which of a bag's topics may be published again, and when."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from phyai_ros.bags.reader import Bag, BagError

SENSOR_TYPES = frozenset(
    {
        "sensor_msgs/msg/Image",
        "sensor_msgs/msg/CompressedImage",
        "sensor_msgs/msg/CameraInfo",
        "sensor_msgs/msg/JointState",
    }
)
INPUTS = ("/instruction",)


def default_topics(bag: Bag) -> list[str]:
    """What a robot's sensors and its user said. Commands, chunks and requests are left out: a real
    arm that listens would move."""
    return sorted(t.name for t in bag.topics.values() if t.type in SENSOR_TYPES or _input(t.name))


def _input(name: str) -> bool:
    return any(name.endswith(known) for known in INPUTS)


def chosen_topics(bag: Bag, patterns: Sequence[str]) -> list[str]:
    """Topics that match any of the patterns (``/camera/*``). Raises BagError naming a pattern that
    matches none."""
    chosen: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(bag.topics, pattern)
        if not found:
            raise BagError(
                f"{bag.path}: no topic {pattern}; there are: {', '.join(sorted(bag.topics))}"
            )
        chosen.update(found)
    return sorted(chosen)
