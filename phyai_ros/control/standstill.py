# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Why no row moves the arm."""

from __future__ import annotations

from phyai_ros.control.chunk import Drop
from phyai_ros.control.starvation import Starvation
from phyai_ros.control.states import State


class Standstill:
    """Held, failed, starved, or nothing asked of it yet.

    reason: for people. held: until somebody resumes. fault: why, until a reset; empty without one.
    of_policy: the fault says that chunks did not come, or none that may be used, and nothing of the
    arm. off_course: why the arm is held because it did not go where it was sent. releasing: it is
    let go of once it stands.
    """

    def __init__(self, fault_after: float) -> None:
        self.reason = "no chunk yet"
        self.held = False
        self.fault, self.of_policy = "", False
        self.off_course = ""
        self.releasing = False
        self.starvation = Starvation(fault_after)

    def hold(self, *, release: bool) -> None:
        self.held = True
        self.releasing |= release

    def leave_hold(self) -> None:
        self.held, self.off_course = False, ""

    def moved(self) -> None:
        """A row moves the arm."""
        self.starvation.end()
        self.releasing = False

    def for_people(self) -> str:
        """Why only a person may let the arm move again: its cause does not end with an episode, and
        somebody has to look at the arm. Empty where there is nothing of this kind."""
        if self.fault and not self.of_policy:
            return f"FAULT: {self.fault}"
        return self.off_course

    def barred(self) -> tuple[Drop, str] | None:
        """Why no chunk may come in, None when one may."""
        if self.fault:
            return Drop.FAULT, self.fault
        return (Drop.HELD, self.reason) if self.held else None

    def state(self, tick: int, *, commanding: bool, resting: bool) -> State:
        """commanding: a command is sent. resting: the arm has been braked."""
        if self.fault:
            return State.FAULT
        if not commanding:
            return State.HOLDING if self.held else State.WAITING
        since = self.starvation.since
        starving = since is not None and (since == tick or not resting)
        return State.STARVED if starving else State.HOLDING
