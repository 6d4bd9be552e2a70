# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Who holds the arm: a person, by service, the robot, by what it says of itself, the handoff, when
the arm did not go where it was sent, and who draws a simulator's next episode."""

from __future__ import annotations

import numpy as np

from phyai_ros.control.handoff import Handoff
from phyai_ros.control.told import BETWEEN, HELD
from phyai_ros.nodes.outputs import Output


class Holds:
    """The arm moves again when nobody holds it any more; the handoff's hold, only a person lifts,
    and theirs. Every call comes from the control thread.

    blocked: why the robot takes no commands, for people; empty while it does. owes: the robot was
    let go of while it was not known where it is: call ``settle`` when it is.
    """

    def __init__(self, handoff: Handoff, output: Output) -> None:
        self.blocked, self.owes = "", False
        self._handoff = handoff
        self._output = output
        self._asked = self._between = False
        self._stands = False

    def hold(self, reason: str) -> None:
        self._asked = True
        self._handoff.hold(self.blocked or reason)

    def resume(self, now: float) -> None:
        self._asked = self._between = False
        self._handoff.resume(now)
        if self.blocked:
            self._hold_free()

    def reset(self, now: float) -> None:
        self._asked = self._between = False
        self._handoff.reset(now)
        if self.blocked:
            self._hold_free()

    def end_episode(self) -> str:
        """Hold until ``begin_episode``. Nobody looks at the arm for it, so it is not done where a
        person has to first: why, for people; empty when it is done."""
        why = self._for_people()
        if not why:
            self._between = True
            self._handoff.hold(self.blocked or BETWEEN)
        return why

    def begin_episode(self, now: float) -> str:
        """``reset`` without a person, as ``end_episode``: a hold or a fault that has come since and
        is not the policy's alone stays."""
        why = self._for_people()
        if not why:
            self.reset(now)
        return why

    def _for_people(self) -> str:
        if why := self._handoff.for_people:
            way = "reset" if why.startswith("FAULT") else "resume"
            return f"{why}; only a person lifts it: handoff_node/{way}"
        return f"{HELD}, until handoff_node/resume" if self._asked else ""

    def block(self, reason: str, measured: np.ndarray | None, *, stands: bool = True) -> None:
        """The robot takes no commands: send none, so that it may be moved by hand meanwhile. The
        first command afterwards ramps from where it is then. stands: the robot says that it has
        stopped; one that says nothing may still move, and is braked before it is let go."""
        known = self.blocked and self._stands
        self.blocked, self._stands = reason, stands
        self._hold_free()
        if stands and not known:
            self.owes = not self._output.let_go(measured)

    def settle(self, measured: np.ndarray | None) -> None:
        """Replace what a controller still holds in store, now that the joint states have come; not
        what this handoff has commanded since."""
        if self.owes and self._handoff.guard.last is None:
            self.owes = not self._output.let_go(measured)
        else:
            self.owes = False

    def unblock(self, now: float) -> None:
        self.blocked, self._stands = "", False
        self.activated(now)

    def activated(self, now: float) -> None:
        """Leave the hold of a deactivation; all others go on."""
        if self.blocked:
            self._hold_free()
        elif self._asked or self._between or self._handoff.off_course:
            self._handoff.hold(self._handoff.off_course or (HELD if self._asked else BETWEEN))
        else:
            self._handoff.resume(now)

    def _hold_free(self) -> None:
        self._handoff.hold(self.blocked, release=True)
        if self._stands:
            self._handoff.let_go()
