# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Numbers of a configuration file. A yes or no is none, whatever Python makes of it: a rate that
reads ``true`` would be 1."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


Number = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
Open = Annotated[float, BeforeValidator(_no_bool)]
"""May be infinite."""
