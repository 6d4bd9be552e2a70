# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Child processes with logs, restarts, an ordered stop and no orphan. Knows nothing of robots."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from honcho.process import Popen, Process

from phyai_ros.tools.logs import ChildLog
from phyai_ros.tools.recording import Crash

Notice = Callable[[str, str, str], None]
"""level (info, warning, error), text, source."""


@dataclass(frozen=True)
class Command:
    """One child. environment is the whole of it. log: where its output goes, appended."""

    name: str
    words: Sequence[str]
    environment: Mapping[str, str]
    log: Path


class Supervisor:
    """Starts commands in order and watches them on its own thread until ``stop``.

    restart_after(name, status): seconds after which a child that ended is started again, None: it
    is not. One that is not and is none of ``optional`` ends the whole: ``stop_event`` is set (the
    caller then calls ``stop``), ``status`` is the exit status to give, ``reason`` says which,
    ``cause`` what it said itself.
    on_crash: called on the watching thread when a child has ended and will be started again.
    ``crashes``: every child that ended and was started again, oldest first.
    stop_order: names; the rest stop after them. grace: seconds that the next child waits for the
    one before it; limit: seconds until all are gone, by force if need be.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        notice: Notice,
        restart_after: Callable[[str, int], float | None],
        stop_event: threading.Event,
        stop_order: Sequence[str] = (),
        grace: float = 0.6,
        limit: float = 2.5,
        on_crash: Callable[[], object] = lambda: None,
        optional: Sequence[str] = (),
    ) -> None:
        self.ended = stop_event
        self.status: int | None = None
        self.reason = self.cause = ""
        self.crashes: list[Crash] = []
        self._commands = {command.name: command for command in commands}
        self._order = [n for n in stop_order if n in self._commands]
        self._order += [n for n in self._commands if n not in self._order]
        self._notice, self._restart_after = notice, restart_after
        self._grace, self._limit, self._on_crash = grace, limit, on_crash
        self._optional = optional
        self._events: queue.Queue = queue.Queue()
        self._alive: dict[str, int] = {}
        self._starting: set[str] = set()
        self._exits = {name: threading.Event() for name in self._commands}
        self._logs: dict[str, ChildLog] = {}
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        for command in self._commands.values():
            self._logs[command.name] = ChildLog(command.log, command.name, self._notice)
            self._spawn(command)
        self._watcher.start()

    def pids(self) -> dict[str, int]:
        """Process ids of the children that run, by name."""
        return dict(self._alive)

    def stop(self) -> None:
        """Terminate one child after another, then kill what is left. Returns with none alive."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for log in self._logs.values():
            log.quiet = True  # what a node says about being stopped is for its log
        deadline = time.monotonic() + self._limit
        for name in self._order:
            patience = min(self._grace, deadline - time.monotonic())
            self._signal(name, signal.SIGTERM)
            if patience > 0:
                self._exits[name].wait(patience)
        for name in self._order:
            if not self._exits[name].wait(max(0.0, deadline - time.monotonic())):
                self._notice("warning", "did not stop in time: killed", name)
                self._signal(name, signal.SIGKILL)
                self._exits[name].wait(1.0)
        self._events.put(None)
        self._watcher.join(1.0)
        for log in self._logs.values():
            log.close()

    def _spawn(self, command: Command) -> None:
        self._exits[command.name].clear()
        self._starting.add(command.name)
        process = Process(
            [*dies_with_parent(), *command.words],
            name=command.name,
            env=dict(command.environment),
        )
        process._child_ctor = functools.partial(Popen, shell=False, stdin=subprocess.DEVNULL)
        thread = threading.Thread(
            target=self._run, args=(process,), name=f"child-{command.name}", daemon=True
        )
        thread.start()

    def _run(self, process: Process) -> None:
        # This thread must outlive the child: the kernel ties the parent-death signal to it.
        try:
            process.run(self._events)
        except OSError as error:
            self._events.put(_CannotStart(process.name, str(error)))

    def _watch(self) -> None:
        due: dict[str, float] = {}
        while True:
            now = time.monotonic()
            for name in [n for n, at in due.items() if at <= now]:
                del due[name]
                if not self._stopping.is_set():
                    self._spawn(self._commands[name])
            wait = min(due.values()) - now if due else None
            try:
                event = self._events.get(timeout=wait)
            except queue.Empty:
                continue
            if event is None:
                return
            if event.type == "start":
                self._alive[event.name] = event.data["pid"]
                self._starting.discard(event.name)
                if self._stopping.is_set():
                    self._signal(event.name, signal.SIGTERM)
            elif event.type == "line":
                self._logs[event.name].write(event.data)
            else:
                delay = self._on_exit(event.name, event.data["returncode"])
                if delay is not None:
                    due[event.name] = time.monotonic() + delay
                    self._on_crash()

    def _on_exit(self, name: str, status: int) -> float | None:
        """Account for a child's end; seconds until it shall come back, None: never."""
        pid = self._alive.pop(name, None)
        self._starting.discard(name)
        if pid is not None:
            _kill_group(pid, signal.SIGKILL)  # what it may have left behind
        self._exits[name].set()
        if self._stopping.is_set() or self.ended.is_set():
            return None
        delay = self._restart_after(name, status)
        if delay is not None:
            self.crashes.append(Crash(name, time.time(), describe(status)))
            self._notice("warning", f"{describe(status)}; starting it again", name)
            return delay
        if name in self._optional:
            self._notice("error", f"{describe(status)}: it stays away, the run goes on", name)
            self._logs[name].show_tail_if_silent()
            return None
        # What a signal ended had no time to say why.
        self.cause = self._logs[name].last_error if status >= 0 else ""
        self.reason = f"{name} {describe(status)}"
        self.status = 1 if status <= 0 else status
        self._logs[name].show_tail_if_silent()
        self.ended.set()
        return None

    def _signal(self, name: str, number: signal.Signals) -> None:
        pid = self._alive.get(name)
        if pid is not None:
            _kill_group(pid, number)
        elif name not in self._starting:
            self._exits[name].set()  # it waits for its restart: nothing is there to stop


@dataclass(frozen=True)
class _CannotStart:
    name: str
    reason: str
    type: str = "stop"

    @property
    def data(self) -> dict[str, int]:
        return {"returncode": 127}


def describe(status: int) -> str:
    """A child's exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def dies_with_parent() -> list[str]:
    """Words before a command: this child is told to stop even when the thread that started it is
    killed and can tell it nothing."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []


def _kill_group(pid: int, number: signal.Signals) -> None:
    # Every child leads its own session, so the group is the child and what it started.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
