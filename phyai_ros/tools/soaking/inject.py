# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A fault of the schedule, done to a running system."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from phyai_ros.tools import shared_memory
from phyai_ros.tools.soaking.bench import STORM
from phyai_ros.tools.soaking.faults.load import Hogs
from phyai_ros.tools.soaking.faults.tampers import KINDS as MESSAGES
from phyai_ros.tools.soaking.schedule import Fault
from phyai_ros.tools.soaking.system import System
from phyai_ros.tools.soaking.verdict import Injected

RESTART = 20.0
"""s to wait for a killed process to be started again."""
Wait = Callable[[float], None]


def inject(system: System, fault: Fault, wait: Wait) -> Injected:
    """Begin it, let it last, end it. wait: sleeps so many seconds, minding the rest meanwhile."""
    return HOW[fault.kind](system, fault, wait)


def _messages(system: System, fault: Fault, wait: Wait) -> Injected:
    began = time.time()
    system.bench.tell({"begin": 0, "kind": fault.kind, "parameters": dict(fault.parameters)})
    wait(fault.duration)
    system.bench.tell({"end": 0})
    return Injected(fault, began, time.time())


def _hogs(system: System, fault: Fault, wait: Wait) -> Injected:
    began = time.time()
    hogs = Hogs(system.environment)
    try:
        wait(fault.duration)
    finally:
        hogs.end()
    return Injected(fault, began, time.time())


def _disk(system: System, fault: Fault, wait: Wait) -> Injected:
    writers = [pid for name in ("up", "record") for pid in system.pids(name)]
    system.disk.prepare()
    began = time.time()
    system.disk.fill(writers)
    system.recordings.disk_full(began)
    wait(fault.duration)
    system.disk.free()
    return Injected(fault, began, time.time())


def _node_killed(name: str) -> Callable[[System, Fault, Wait], Injected]:
    def run(system: System, fault: Fault, wait: Wait) -> Injected:
        killed = _kill(system, name)
        began = time.time()
        return Injected(fault, began, _restarted(system, name, killed, wait))

    return run


def _simulator(system: System, fault: Fault, wait: Wait) -> Injected:
    began = time.time()
    system.simulator.kill()
    wait(fault.duration)
    system.start_simulator()
    return Injected(fault, began, time.time())


def _recorder(system: System, fault: Fault, wait: Wait) -> Injected:
    began = time.time()
    system.recordings.kill()
    system.recordings.start()
    return Injected(fault, began, time.time())


def _dds(system: System, fault: Fault, wait: Wait) -> Injected:
    """Every participant of robot and policy is gone at once, what they left in shared memory is
    removed, and all come back."""
    began = time.time()
    system.simulator.kill()
    killed = {name: _kill(system, name) for name in ("handoff_node", "policy_node")}
    shared_memory.sweep()
    wait(fault.duration)
    system.start_simulator()
    again = [_restarted(system, name, pids, wait) for name, pids in killed.items()]
    return Injected(fault, began, max([time.time(), *again]))


def _kill(system: System, name: str) -> list[int]:
    pids = system.pids(name)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _restarted(system: System, name: str, before: list[int], wait: Wait) -> float:
    """When, s of the wall clock, a new process of that name was there."""
    end = time.monotonic() + RESTART
    while not set(system.pids(name)) - set(before):
        if time.monotonic() > end:
            system.broken.append(f"{name} was killed and not started again in {RESTART:g} s")
            break
        wait(0.05)
    return time.time()


HOW: dict[str, Callable[[System, Fault, Wait], Injected]] = {
    **dict.fromkeys((*MESSAGES, STORM), _messages),
    "cpu_hogs": _hogs,
    "disk_full": _disk,
    "policy_killed": _node_killed("policy_node"),
    "handoff_killed": _node_killed("handoff_node"),
    "simulator_killed": _simulator,
    "recorder_killed": _recorder,
    "dds_restart": _dds,
}
