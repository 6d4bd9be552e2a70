# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Text for people: what somebody sent, quoted with an end to it, and counts of things."""

from __future__ import annotations

LONGEST = 1000
"""Characters: what fits a screen; a message may name a million joints."""


def shortened(text: str) -> str:
    """The text, its middle left out where it is too long: what is wrong stands at both ends."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} ... {text[-half:]}"


def counted(number: int, thing: str) -> str:
    """A count with its noun, given in the singular: ``1 row``, ``2 rows``. For nouns whose plural
    takes an s."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
