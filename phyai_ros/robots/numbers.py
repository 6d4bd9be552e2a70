# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Numbers of a configuration file. A yes or no is none, whatever Python makes of it: a rate that
reads ``true`` would be 1. One that no robot has is in another unit, and would hold nothing back."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


Number = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
Open = Annotated[float, BeforeValidator(_no_bool)]
"""May be infinite."""

FARTHEST = {"rad": 8 * math.pi, "m": 20.0}
"""Unit -> the most of it, in either direction, that anything of a robot is from its zero."""
MEANT = {"rad": "degrees", "m": "millimetres", "s": "milliseconds"}
"""Unit -> the one that numbers are often given in instead."""


def too_much(most: float, unit: str, per: str = "", why: str = "") -> ValueError:
    """Of a number that no robot has. per: what stands behind the unit."""
    return ValueError(f"expected at most {most:g} {unit}{per} ({why}is it in {MEANT[unit]}?)")


def plausible(unit: str, most: float, endless: bool = False) -> AfterValidator:
    """Refuses what is larger than ``most`` of the unit, in either direction; ``endless``: not
    infinity, which is of no unit."""

    def check(value: float) -> float:
        if abs(value) > most and not (endless and math.isinf(value)):
            raise too_much(most, unit)
        return value

    return AfterValidator(check)


def _of_a_joint(value: float) -> float:
    if abs(value) > max(FARTHEST.values()):
        raise ValueError(
            f"expected at most {FARTHEST['rad']:g} rad or {FARTHEST['m']:g} m "
            f"(is it in {MEANT['rad']} or {MEANT['m']}?)"
        )
    return value


OfAJoint = Annotated[Number, AfterValidator(_of_a_joint)]
"""A position of a joint whose unit is said elsewhere."""
Metres = Annotated[Number, plausible("m", FARTHEST["m"])]
OpenMetres = Annotated[Open, plausible("m", FARTHEST["m"], endless=True)]
Radians = Annotated[Number, plausible("rad", FARTHEST["rad"])]
Age = Annotated[Positive, plausible("s", 10.0)]
"""Seconds after which a sample is too old: ten are more than any that is worth acting on, and less
than a camera's period in milliseconds."""
Step = Annotated[Positive, plausible("s", 5.0)]
"""Seconds between the rows of a chunk."""
Skew = Annotated[Positive, plausible("s", 1.0)]
"""Seconds between pictures of one moment."""
