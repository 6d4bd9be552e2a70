# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The errors of this room, and what they guess at."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class RobotError(ValueError):
    """A robot description, or a checkpoint that does not fit it. The text says which file and key,
    what was expected and found, and what there is to choose from."""


class NumbersError(RobotError):
    """A checkpoint whose columns are known, but which speaks of them in other numbers than the
    robot's description says."""


def like(name: str, names: Sequence[str], of: str = "") -> str:
    """What a refusal of ``name`` adds where one of ``names`` is near to it. of: the key that gives
    these names, in the same file: either may be the misspelt one."""
    close = difflib.get_close_matches(name, names, n=1)
    also = f", or is that misspelt in {of}" if of else ""
    return f" (do you mean {close[0]!r}{also}?)" if close else ""
