# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Watches a run and, in the simulator, drives its episodes; writes the report and the pictures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from phyai_ros.control.words import counted
from phyai_ros.nodes import diagnostics
from phyai_ros.nodes.outlets import Way
from phyai_ros.nodes.participant import Participant
from phyai_ros.tools import incidents, process_status, report, report_table
from phyai_ros.tools.archive import Archive
from phyai_ros.tools.console import labelled, results
from phyai_ros.tools.episode_driver import DriverError, EpisodeDriver
from phyai_ros.tools.progress import Progress
from phyai_ros.tools.recorder import Recorder
from phyai_ros.tools.recording import ACTING, Crash, Recording

STARTUP = 120.0
"""How long a run may take to its first command, s."""


WRITTEN = ("report.json", "timeline.png", "filmstrip.png")

FINISH = 60.0
"""Seconds beyond the duration for an episode under way: it has 10 s of the simulator's time."""

PATIENCE = 15.0
"""After so many seconds without a command it is said what is missing, also without a terminal."""


@dataclass(frozen=True)
class Run:
    """What is watched, and for how long.

    duration: s from the first command on, None: until stopped or ``episodes`` are done; a run in
    which no command came in ``startup`` s ends too. An episode
    that is under way at the end is finished: cutting it off would bias the success rate. One that
    has not ended FINISH s later never will.
    cameras: role -> topic. ways: where the commands go.
    about: goes into the report's head (model, robot, ...).
    """

    directory: Path
    sim: bool
    duration: float | None = 30.0
    episodes: int | None = None
    cameras: Mapping[str, str] = field(default_factory=dict)
    ways: tuple[Way, ...] = ()
    joint_names: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    use_sim_time: bool = False
    startup: float = STARTUP


def run(
    what: Run,
    *,
    stopped: Callable[[], str | None] = lambda: None,
    ended: Callable[[], None] = lambda: None,
    crashes: Callable[[], Sequence[Crash]] = lambda: (),
    cause: Callable[[], str] = lambda: "",
    console: Console | None = None,
) -> int:
    """Watch until the end; exit status 0, or 1 when no command ever came, the run broke off, its
    last episode did not end, a process crashed in it, although it was started again, or the arm
    was left to a person: in a fault, or held off its commands.

    stopped: asked often; a reason (a process that ended, Ctrl-C) ends the run with a report of
    what there is. KeyboardInterrupt does the same. ended: called when nothing more is watched,
    before the report is written. crashes: the processes that were started again. cause: what a
    process that ended the run said itself, which people have read by then. Blocks; makes its own
    ROS context.
    """
    console = console or results()
    what.directory.mkdir(parents=True, exist_ok=True)
    for name in WRITTEN:  # an earlier run into this folder is no part of this one
        (what.directory / name).unlink(missing_ok=True)
    watch = _Watch(what, stopped, Progress(console), crashes)
    try:
        status = watch.run()
    except KeyboardInterrupt:
        watch.recorder.recording.problems.append("stopped before its end (Ctrl-C)")
        status = 130
    finally:
        ended()
        watch.close()
    recording = watch.recorder.recording
    recording.cause = cause()
    recording.crashes += crashes()
    recording.problems += incidents.problems(recording)
    if recording.redrawn:
        recording.problems.append(
            f"somebody else has reset the simulator in {counted(recording.redrawn, 'episode')}, "
            "without an outcome then"
        )
    if recording.shared:
        topics = ", ".join(recording.shared)
        recording.problems.append(
            f"somebody else published on {topics} too: two masters make the arm jump, and the "
            "numbers are of both; give each system its own ROS_DOMAIN_ID"
        )
    unclean = recording.crashes or recording.shared or incidents.left_standing(recording)
    if unclean and status == 0:
        status = 1
    return status if write(what, recording, console) else status or 1


def write(what: Run, recording: Recording, console: Console) -> bool:
    """The tables on the console; report.json, timeline.png and filmstrip.png in the run's
    directory. False where one of them could not be written, which is said."""
    asked = {"duration": what.duration, "episodes": what.episodes}
    about = {**what.about, "sim": what.sim, "asked": asked}
    numbers = report.build(recording, about)
    report_table.show(numbers, console)  # before anything is written: a disk may be full
    text = json.dumps(numbers, indent=2) + "\n"
    files: dict[str, Callable[[Path], Any]] = {"report.json": partial(_write_text, text)}
    if any(t.state in ACTING for t in recording.ticks):
        from phyai_ros.tools import filmstrip, plots  # slow to import: after the run, not before

        files["timeline.png"] = partial(plots.timeline, recording, about)
        files["filmstrip.png"] = partial(filmstrip.save, recording)
    place, written, whole = os.path.relpath(what.directory), [], True
    for name, save in files.items():
        try:
            if save(what.directory / name):
                written.append(f"{place}/{name}")
        except OSError as error:
            whole = False
            reason = error.strerror or str(error)
            console.print(labelled("  error", "red", f" {place}/{name} not written: {reason}"))
    console.print("wrote " + (", ".join(written) or "nothing"))
    return whole


def _write_text(text: str, path: Path) -> bool:
    path.write_text(text)
    return True


class _Watch:
    """One run being watched."""

    def __init__(
        self,
        what: Run,
        stopped: Callable[[], str | None],
        progress: Progress,
        crashes: Callable[[], Sequence[Crash]],
    ) -> None:
        self._what, self._stopped, self._progress = what, stopped, progress
        self._here = Participant("phyai_monitor", use_sim_time=what.use_sim_time)
        node = self._here.node
        self._crashes, self._told = crashes, 0
        self._archive = Archive(what.directory)
        self._processes = diagnostics.Publisher(
            node, [lambda: [process_status.status(crashes(), time.time())]]
        )
        self.recorder = Recorder(node, dict(what.cameras), what.ways, what.joint_names)
        self._driver = EpisodeDriver(node, self.recorder, self._spin, stopped) if what.sim else None

    def run(self) -> int:
        with self._progress:
            reason = self._start() or self._work()
        if reason is None:
            return 0
        self.recorder.recording.problems.append(reason)
        return 1

    def _heard(self) -> dict[str, list[Any]]:
        """What grows with the run."""
        recording = self.recorder.recording
        commands = {f"commands {i}": heard for i, heard in enumerate(recording.commands)}
        return {"ticks": recording.ticks, "chunks": recording.chunks, **commands}

    def close(self) -> None:
        self._archive.restore(self._heard())
        self._here.close()

    def _start(self) -> str | None:
        """Waits for the first command; returns why there is none."""
        end = time.monotonic() + self._what.startup
        patience = time.monotonic() + PATIENCE
        begun = self._driver is None
        while not (begun and self._acted()):
            if reason := self._stopped():
                return reason
            if time.monotonic() > end:
                return f"no command in {self._what.startup:g} s: {self._trouble()}"
            if self._driver is not None and not begun and self._driver.announced:
                # The instruction may be what the policy is waiting for.
                self._driver.begin_first()
                begun = True
            trouble = self._trouble()
            self._progress.starting(trouble)
            if trouble and time.monotonic() > patience:
                limit = f"given up after {self._what.startup:g} s"
                self._progress.note(f"still waiting for the first command ({limit}): {trouble}")
            self._spin(0.1)
        return None

    def _work(self) -> str | None:
        began = time.monotonic()
        try:
            return self._follow(began)
        finally:
            self.recorder.recording.ran = time.monotonic() - began

    def _follow(self, began: float) -> str | None:
        """To the end of the run; None where that is the end that was asked for."""
        while not (reason := self._stopped()):
            passed = time.monotonic() - began
            self._progress.working(passed, self._what.duration, self.recorder.recording)
            if self._driver is None:
                self._archive.trim(self._heard())
                if self._what.duration is not None and passed >= self._what.duration:
                    return None
            elif self._driver.finished():
                self._archive.trim(self._heard())  # between episodes: of one it looks back
                done = len(self.recorder.recording.episodes)
                if self._enough(passed, done):
                    return None
                try:
                    if why := self._driver.next():
                        self._progress.note(f"the next episode does not begin: {why}")
                        self._spin(0.4)
                except DriverError as error:
                    return str(error)
            elif self._what.duration is not None and passed >= self._what.duration + FINISH:
                return f"the last episode has not ended {FINISH:g} s after the duration: cut off"
            self._spin(0.1)
        return reason

    def _enough(self, passed: float, done: int) -> bool:
        over = self._what.duration is not None and passed >= self._what.duration
        return over or (self._what.episodes is not None and done >= self._what.episodes)

    def _acted(self) -> bool:
        return any(t.state in ACTING for t in self.recorder.recording.ticks[-40:])

    def _trouble(self) -> str:
        """What the nodes say is wrong, for people."""
        recorder = self.recorder
        bad = [
            f"{name}: {recorder.statuses[name]}"
            for name, level in recorder.levels.items()
            if level > 0
        ]
        return "; ".join(bad) or ("no node has reported yet" if not recorder.levels else "")

    def _spin(self, seconds: float) -> None:
        """Until ``seconds`` have passed; work that is there is done in one go."""
        if len(self._crashes()) != self._told:
            self._told = len(self._crashes())
            self._processes.publish()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._here.spin(left)
