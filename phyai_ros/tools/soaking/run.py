# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One soak: start, wait until the arm moves, fault after fault, stop, judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from phyai_ros.tools.soaking import schedule
from phyai_ros.tools.soaking.inject import inject
from phyai_ros.tools.soaking.schedule import Fault
from phyai_ros.tools.soaking.system import System
from phyai_ros.tools.soaking.verdict import ECHO, Injected, Verdict, judge

FIRST_COMMAND = 90.0
LONGEST = 3.0
"""Times of the minutes asked for that the first round may take."""
PATIENCE = 120.0
"""s to wait for a recovery before the run is given up."""
SETTLED = 1.5
"""s of driving before the next fault: it shall be the only one."""
HEARD = 3.0
"""s in which a new task is heard, if it is one."""
_STEP = 0.05


class Soak:
    """minutes: of faults; every kind comes once, whatever that takes, up to LONGEST times of it.
    progress: called with each fault and what came of it so far, for people."""

    def __init__(
        self,
        system: System,
        seed: int,
        minutes: float,
        patience: float,
        progress: Callable[[str], None],
    ) -> None:
        self.injected: list[Injected] = []
        self._system, self._seed, self._minutes = system, seed, minutes
        self._patience, self._progress = patience, progress
        self._sampled = 0.0
        self.seconds = 0.0

    def run(self) -> Verdict:
        system = self._system
        orphans: list[str] = []
        try:
            system.start()
            self._go()
        except KeyboardInterrupt:
            system.broken.append("stopped before its end")
        finally:
            orphans = system.stop()
        return judge(
            self.injected,
            system.timeline,
            system.memory.lives(),
            system.recordings.checked,
            orphans,
            system.broken,
            self._patience,
        )

    def _go(self) -> None:
        if not self._until_driven(time.time(), FIRST_COMMAND):
            self._give_up(f"no command in {FIRST_COMMAND:g} s")
            return
        began = time.monotonic()
        for fault, again in self._faults(began):
            self.seconds = time.monotonic() - began
            if again and self.seconds > 60.0 * self._minutes:
                return
            if self.seconds > LONGEST * 60.0 * self._minutes:
                self._system.broken.append("not every kind of fault came in the time")
                return
            if not self._one(fault):
                return

    def _faults(self, began: float) -> Iterator[tuple[Fault, bool]]:
        """(fault, whether its kind came before). In the second half nothing is killed, so that
        processes grow old enough for their memory to be judged."""
        system = self._system
        robot = schedule.Robot(
            tuple(system.robot.cameras), system.robot.joint_names, system.sim_time
        )
        number = 0
        while True:
            calm = number > 0 and time.monotonic() - began > 30.0 * self._minutes
            for fault in schedule.round_of(self._seed, number, robot, calm=calm):
                yield fault, number > 0
            number += 1

    def _one(self, fault: Fault) -> bool:
        """Whether the run can go on."""
        system = self._system
        if not (self._until_settled() and self._until_moving()):
            return self._give_up(f"before {fault}: the arm was not driven for {PATIENCE:g} s")
        if not self._until_recording():
            return self._give_up(f"before {fault}: nothing was recorded for {PATIENCE:g} s")
        self._progress(str(fault))
        one = inject(system, fault, self._wait)
        self.injected.append(one)
        if not self._until_driven(one.ended, PATIENCE):
            return self._give_up(f"after {fault}: no recovery in {PATIENCE:g} s")
        # What the next task does shall not be taken for this fault's echo.
        self._wait(max(0.0, one.ended + ECHO - time.time()))
        system.recordings.check()
        return True

    def _give_up(self, why: str) -> bool:
        """Who ended is the reason, where somebody did."""
        self._system.broken += self._system.dead() or [why]
        return False

    def _until_driven(self, after: float, patience: float) -> bool:
        """Wait for a chunk that first drives the arm after a moment."""
        end = time.monotonic() + patience
        while self._system.timeline.resumed(after) is None:
            if time.monotonic() > end or self._system.dead():
                return False
            self._wait(_STEP)
        return True

    def _until_moving(self) -> bool:
        """Give a new task and wait until it drives the arm: most of its way is then ahead."""
        asked = time.time()
        self._system.new_task()
        end = time.monotonic() + HEARD
        while (stopped := self._system.timeline.stopped(asked)) is None:
            if time.monotonic() > end:
                break  # after a storm it may be the task that is in force
            self._wait(_STEP)
        return self._until_driven(stopped or asked, PATIENCE)

    def _until_settled(self) -> bool:
        end = time.monotonic() + PATIENCE
        while True:
            now = time.time()
            if self._system.timeline.acted_throughout(now - SETTLED, now):
                return True
            if time.monotonic() > end or self._system.dead():
                return False
            self._wait(_STEP)

    def _until_recording(self) -> bool:
        """A recorder that was killed, or had no room, is over it when it records."""
        end = time.monotonic() + PATIENCE
        while not self._system.recordings.recording():
            if time.monotonic() > end or self._system.dead():
                return False
            self._wait(_STEP)
        return True

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if time.monotonic() - self._sampled >= 1.0:
                self._sampled = time.monotonic()
                self._system.sample_memory()
            time.sleep(min(left, 0.2))
