# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a person, or a program gone wrong, may say. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator

COLOURS = ("red", "green", "blue")
BAD = ("", "   ", "\n", "x" * 100_000, "\x00", "reach\tthe\r\nred block", "\u202e\U0001f916" * 40)


def sensible(random_: random.Random) -> Iterator[str]:
    """Tasks, each another one than the one before."""
    before = ""
    while True:
        before = random_.choice([c for c in COLOURS if c != before])
        yield f"reach the {before} block"


def storm(random_: random.Random) -> Iterator[str]:
    """Sensible ones and others, mixed."""
    tasks = sensible(random_)
    while True:
        yield random_.choice(BAD) if random_.random() < 0.3 else next(tasks)
