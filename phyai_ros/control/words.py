# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Text for people that quotes what somebody sent: it has an end, whatever was sent."""

from __future__ import annotations

LONGEST = 1000
"""Characters: what fits a screen; a message may name a million joints."""


def shortened(text: str) -> str:
    """The text, its middle left out where it is too long: what is wrong stands at both ends."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} ... {text[-half:]}"
