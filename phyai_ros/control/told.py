# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What standstills say of themselves, and of which people are warned, by state and reason: the
others were asked for, or are a policy's that thinks, and starving is counted."""

from __future__ import annotations

from phyai_ros.control.motion import STOPPED_SHORT
from phyai_ros.control.states import State
from phyai_ros.control.tracking import OFF_COURSE

HELD = "held by service"
"""The reason of a person's hold."""
BETWEEN = "between two episodes"
"""The reason of the hold while a simulator draws its next episode."""
CLOCK_JUMPED = "the clock jumped"
"""In the reason of a standstill after ticks that were missing, or a clock that was set."""
RESET = "`phyai-ros handoff reset` when its cause is mended"
RESUME = "`phyai-ros handoff resume` when it may move"
GOES_ON = "it goes on with a fresh chunk, unless it is held"


def jumped(seconds: float, *, by_steady: bool) -> str:
    """The reason after a clock that moved on its own. by_steady: another, which nobody sets, says
    so; else time that passed without a tick looks the same."""
    if by_steady or seconds < 0:
        return f"{CLOCK_JUMPED} by {seconds:.3f} s"
    return f"the control timer stood for {seconds:.3f} s, or {CLOCK_JUMPED}"


def way_out(state: State, reason: str) -> str:
    """How it ends, of a standstill to warn of; empty for all others."""
    if state is State.FAULT:
        return RESET
    if state is State.HOLDING and OFF_COURSE in reason:
        return RESUME
    standing = state in (State.HOLDING, State.WAITING)
    return GOES_ON if standing and (STOPPED_SHORT in reason or CLOCK_JUMPED in reason) else ""


def lasting(reason: str) -> str:
    """A standstill's reason without what the ROS graph knows of it, which changes meanwhile."""
    first, *others = reason.split("; ")
    return "; ".join([first, *(other for other in others if STOPPED_SHORT in other)])
