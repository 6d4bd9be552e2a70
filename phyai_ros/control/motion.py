# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""From rows to commands: starting from where the arm is, moving, braking, standing, letting go."""

from __future__ import annotations

import numpy as np

from phyai_ros.control.chunk import Plan
from phyai_ros.control.config import HandoffConfig
from phyai_ros.control.guard import Guard, Limits
from phyai_ros.control.preview import preview
from phyai_ros.control.ramp import Ramp
from phyai_ros.control.states import Counters
from phyai_ros.control.tracking import TrackingWatch
from phyai_ros.control.workspace import Workspace

GRIPPER_MOVED = 0.05
"""Share of its travel by which a gripper must be elsewhere to have been moved."""
LEFT_ALONE = "was moved, so nothing is commanded"
"""In the reason of a standstill in which something else moved the arm."""
STOPPED_SHORT = "was stopped short of its command, and is held where it is"
"""In the reason of a standstill in which an arm gave way to what stops it."""
UNSEEN = "where the arm is is not known, so nothing is commanded"
"""In the reason of a standstill without joint states."""
BLIND = 1.0
"""Seconds without a usable joint state after which a standing arm is let go."""
SETTLING = 1.0
"""Seconds after which a standing arm that never got to its command is taken for stopped."""


class Motion:
    """The arm under the handoff's commands. Joint order: ``limits.names``. Call ``see`` with what
    is measured once a tick, then ``step`` or ``brake``, then ``sent``.

    held: bool [joints], grippers. tracking: finds an arm that does not go where it is sent.
    """

    def __init__(
        self,
        limits: Limits,
        config: HandoffConfig,
        held: np.ndarray,
        counters: Counters,
        *,
        workspace: Workspace | None = None,
        tracking: TrackingWatch | None = None,
    ) -> None:
        self.guard = Guard(limits, config.period, workspace)
        self.tracking = tracking
        self._config, self._held, self._counters = config, held, counters
        self._ramp = Ramp(limits, config)
        self.unusable = ""
        """Why the newest measurement says nothing, for people; empty when it does or none is there.
        """
        self._measured: np.ndarray | None = None
        self._seen: np.ndarray | None = None
        self._gripped: tuple[np.ndarray, np.ndarray] | None = None
        self._plan: Plan | None = None  # of the newest tick, whatever was decided since
        self._settled, self._stood = False, 0
        self._blind: float | None = None
        self._leapt, self._gave_way = False, False
        self._far = 2.0 * np.broadcast_to(config.tracking_tolerance, len(limits.names))

    # -- what is measured --------------------------------------------------------------------

    def see(self, measured: np.ndarray | None) -> str:
        """measured: float [joints], None when unknown. Why no motion can start from it; empty when
        one can, or none is there."""
        self.unusable = "" if measured is None else self._unusable(measured)
        self._counters.bad_measurements += bool(self.unusable)
        self._seen = None if self.unusable else measured
        return self.unusable

    def _unusable(self, measured: np.ndarray) -> str:
        limits = self.guard.limits
        wild = np.flatnonzero(limits.wild(measured))
        if not len(wild):
            return ""
        i = wild[0]
        return (
            f"{limits.names[i]} is far outside [{limits.lower[i]:g}, {limits.upper[i]:g}] or no "
            f"number; is its unit right?"
        )

    def off_its_commands(self, measured: np.ndarray | None, moving: bool) -> str:
        """Before a tick's command: why an arm that is moved by rows (``moving``) has to be held;
        empty when it has not. ``brake`` then takes the joints that did not follow back to where
        they are: held at their commands they would go on pressing against what stops them, and leap
        when it gives way. Of an arm that stands, ``brake`` finds out."""
        if self.tracking is None:
            return ""
        if not moving:
            self._leapt |= self.tracking.leapt
            self.tracking.clear()
            return ""
        trouble = self.tracking.look(measured)
        if not trouble or measured is None:
            return ""
        if unusable := self._unusable(measured):
            return f"{unusable} {trouble}"
        self.guard.give_way(self.tracking.stopped_at)
        return trouble

    # -- commands ----------------------------------------------------------------------------

    def start(self, measured: np.ndarray, row: np.ndarray, tick: int) -> None:
        """Begin to move towards ``row`` of ``tick``."""
        last = self.guard.last
        base = np.array(measured, dtype=np.float64)
        if last is not None and not self.guard.standing:
            # Still braking: go on from here, at this speed.
            self._ramp.start(last, row, tick)
            return
        if last is not None:
            # Standing under our own command: that command is the start, unless the arm is
            # elsewhere (pushed, stopped by its own safety) and not still on its way there. A
            # gripper on an object never is.
            away = (np.abs(base - last) > self._config.tracking_tolerance) & ~self._held
            away &= self._arrived
            self._counters.rebases += bool(away.any())
            base = np.where(away, base, last)
        elif self._gripped is not None:
            command, then = self._gripped
            travel = self.guard.limits.upper - self.guard.limits.lower
            unmoved = np.abs(base - then) <= GRIPPER_MOVED * travel
            base = np.where(self._held & unmoved, command, base)
        self.guard.start(base)
        self._ramp.start(base, row, tick)

    def step(self, row: np.ndarray, tick: int) -> tuple[np.ndarray, bool, bool]:
        """-> command, whether the guard changed it, whether it is still on the ramp."""
        self._settled, self._stood, self._blind = False, 0, None
        self._leapt, self._gave_way = False, False
        positions, limited = self.guard.step(self._ramp.blend(row, tick))
        self._note()
        return positions, limited, self._ramp.active(tick)

    def brake(self, release: bool, wall: float) -> tuple[np.ndarray | None, str]:
        """The command of a tick without a row; None where the arm is not ours to command. release:
        let go of it once it stands. wall: now, by the clock of who measures. And what is to be said
        of it, for people."""
        if self.guard.last is None:
            return None, ""
        if self._seen is not None and self._measured is not None:
            leaps = np.abs(self._seen - self._measured) > self._far
            self._leapt |= bool((leaps & ~self._held).any())
        words = ""
        if self.guard.standing:
            words = "" if release else self._moved(self.guard.last, wall)
            if release or (words and self.guard.standing):
                self.let_go()
                return None, words
        return self.guard.brake(), words

    def _moved(self, command: np.ndarray, wall: float) -> str:
        """Whether a standing arm was moved by something else (by hand, by its own safety), which
        commanding its old pose would undo at once as soon as it could."""
        if self._seen is None:
            return self._unseen(wall)
        self._blind = None
        # A gripper on an object never gets there.
        off = np.where(self._held, 0.0, np.abs(self._seen - command))
        away = off > self._config.tracking_tolerance
        self._stood += 1
        if not away.any():
            self._settled, self._leapt = True, False
            return ""
        if not self._arrived:
            return ""
        name = self.guard.limits.names[int(away.argmax())]
        never = not (self._settled or self._leapt or self._gave_way)
        if never and self.tracking is not None and (off > self._far).any():
            # Something stops it, and is pressed by it. One that is less far off may sag by that.
            self._gave_way, self._stood = True, 0
            self.guard.give_way(np.where(away, self._seen, np.nan))
            return f"; {name} {STOPPED_SHORT}"
        self._counters.rebases += 1
        return f"; {name} {LEFT_ALONE}"

    @property
    def _arrived(self) -> bool:
        """Whether a standing arm is no longer coming after its command, wherever it is."""
        return self._settled or self._stood * self._config.period >= SETTLING

    def _unseen(self, wall: float) -> str:
        """Nothing is known of a standing arm: its driver is gone, and may come back with the arm
        elsewhere, which would be told to jump to the old pose."""
        # A clock that is set back does not make it longer.
        self._blind = wall if self._blind is None else min(self._blind, wall)
        self._settled = True  # if it comes back elsewhere, it is not still on its way
        return f"; {UNSEEN}" if wall - self._blind >= BLIND else ""

    def let_go(self) -> None:
        """Stop commanding at once, so that others may move the arm: the next command starts from
        where it is then. A gripper that has not moved meanwhile goes on from its command, for what
        it holds may keep it from getting there."""
        if self.guard.last is not None and self._measured is not None:
            self._gripped = self.guard.last, self._measured
        self.guard.stop()
        if self.tracking is not None:
            self.tracking.clear()

    # -- from tick to tick -------------------------------------------------------------------

    def sent(self, plan: Plan | None) -> None:
        """The tick's command is out. plan: that moves the arm, None while it brakes or stands."""
        self._plan = plan
        if self._seen is not None:
            self._measured = self._seen  # until now that of the tick before, for ``let_go``

    def played_on(self, first: int, end: int) -> None:
        """The robot has gone on with what it was sent (``ahead``, as of the tick before) while the
        ticks first <= t < end were missed: the next command follows from where that has led."""
        if self.guard.last is None:
            return
        for tick in range(first, end):
            row = None if self._plan is None else self._plan.row(tick)
            if row is None:
                self.guard.brake()
            else:
                self.guard.step(self._ramp.blend(row, tick))
            self._note()

    def ahead(self, plan: Plan | None, tick: int) -> np.ndarray:
        """Commands after ``tick``, were no other chunk to come: [n, joints], ending in a standing
        arm; none where nothing is commanded."""
        return preview(self.guard, self._ramp, plan, tick)

    def _note(self) -> None:
        if self.tracking is not None and self.guard.last is not None:
            self.tracking.sent(self.guard.last)
