# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Real processes: what happens to them, to their logs and to the whole when one ends."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from phyai_ros.tools.supervise import Command, Supervisor, describe

READY = "import signal, sys, time, os; print('ready', flush=True); "


class Rig:
    def __init__(self, folder):
        self.folder, self.notices, self.over = folder, [], threading.Event()

    def command(self, name, code):
        words = [sys.executable, "-c", READY + code]
        return Command(name, words, dict(os.environ), self.folder / f"{name}.log")

    def start(self, *commands, restart_after=lambda *_: None, **settings):
        def notice(level, text, source):
            self.notices.append((level, text, source))

        supervisor = Supervisor(commands, notice, restart_after, self.over, **settings)
        supervisor.start()
        for command in commands:
            self.wait(lambda c=command: "ready" in self.log(c.name))
        return supervisor

    def log(self, name):
        file = self.folder / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def wait(self, condition, seconds=20.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"never came true; notices: {self.notices}"
            time.sleep(0.02)


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # reaped since
        return False


def says_when(name, path):
    """Sleeps; on SIGTERM writes its name to a shared file and ends."""
    return (
        f"signal.signal(15, lambda *_: (open({str(path)!r}, 'a').write('{name} '), sys.exit(0)));"
        "time.sleep(60)"
    )


def test_stop_follows_the_order_and_leaves_nothing(rig, tmp_path):
    order = tmp_path / "order"
    commands = [rig.command(n, says_when(n, order)) for n in ("sim", "policy", "handoff")]
    supervisor = rig.start(*commands, stop_order=("handoff", "policy", "sim"))
    pids = supervisor.pids()
    supervisor.stop()
    assert order.read_text().split() == ["handoff", "policy", "sim"]
    assert not any(alive(pid) for pid in pids.values())
    assert not rig.over.is_set(), "a stop that was asked for is no failure"


def test_a_child_that_ignores_the_request_is_killed_with_its_own_children(rig):
    stubborn = (
        "signal.signal(15, signal.SIG_IGN);"
        "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True);"
        "time.sleep(60)"
    )
    supervisor = rig.start(rig.command("a", stubborn), grace=0.2, limit=0.5)
    rig.wait(lambda: len(rig.log("a").split()) == 2)
    own, below = supervisor.pids()["a"], int(rig.log("a").split()[1])
    supervisor.stop()
    # The kernel delivers a group's SIGKILL to each process in its own time.
    rig.wait(lambda: not alive(own) and not alive(below))
    assert ("warning", "did not stop in time: killed", "a") in rig.notices


def test_a_killed_child_comes_back_with_a_notice(rig):
    delays, crashes = [None, 0.05], []
    supervisor = rig.start(
        rig.command("policy", "time.sleep(60)"),
        restart_after=lambda name, status: delays.pop(),
        on_crash=lambda: crashes.append(1),
    )
    first = supervisor.pids()["policy"]
    os.kill(first, signal.SIGKILL)
    rig.wait(lambda: supervisor.pids().get("policy", first) != first)
    assert ("warning", "was killed by SIGKILL; starting it again", "policy") in rig.notices
    assert not rig.over.is_set()
    os.kill(supervisor.pids()["policy"], signal.SIGKILL)
    assert rig.over.wait(20), "the second time is one too many"
    assert supervisor.status == 1
    assert supervisor.reason == "policy was killed by SIGKILL"
    assert crashes == [1]
    supervisor.stop()


def test_an_optional_child_that_stays_away_ends_nothing(rig):
    supervisor = rig.start(
        rig.command("good", "time.sleep(60)"),
        rig.command("pictures", "print('no such thing: x'); sys.exit(3)"),
        optional=("pictures",),
    )
    told = ("error", "ended with status 3: it stays away, the run goes on", "pictures")
    rig.wait(lambda: told in rig.notices)
    assert not rig.over.is_set()
    assert alive(supervisor.pids()["good"])
    supervisor.stop()
    assert supervisor.status is None


def test_a_child_that_fails_ends_the_whole_with_its_status_and_its_last_words(rig):
    supervisor = rig.start(
        rig.command("good", "time.sleep(60)"),
        rig.command("bad", "print('no such thing: x'); sys.exit(3)"),
    )
    assert rig.over.wait(20)
    good = supervisor.pids()["good"]
    supervisor.stop()
    assert (supervisor.status, supervisor.reason) == (3, "bad ended with status 3")
    assert ("error", "no such thing: x", "bad") in rig.notices
    assert not alive(good)


def test_a_child_that_ends_by_itself_without_error_still_ends_the_whole(rig):
    supervisor = rig.start(rig.command("done", "pass"))
    assert rig.over.wait(20)
    supervisor.stop()
    assert supervisor.status == 1


def test_a_program_that_does_not_exist_is_said(rig):
    command = Command("ghost", ["/no/such/program"], dict(os.environ), rig.folder / "ghost.log")
    notices = []
    supervisor = Supervisor([command], lambda *n: notices.append(n), lambda *_: None, rig.over)
    supervisor.start()
    assert rig.over.wait(20)
    supervisor.stop()
    assert supervisor.status not in (0, None)
    assert any("/no/such/program" in text for _, text, _ in notices)


def test_stop_during_a_restart_starts_nothing(rig):
    supervisor = rig.start(rig.command("policy", "time.sleep(60)"), restart_after=lambda *_: 30.0)
    os.kill(supervisor.pids()["policy"], signal.SIGKILL)
    rig.wait(lambda: rig.notices)
    supervisor.stop()
    assert supervisor.pids() == {}


def test_children_end_when_their_supervisor_is_killed(tmp_path):
    code = f"""
import os, sys, threading, time
from pathlib import Path
from phyai_ros.tools.supervise import Command, Supervisor
words = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"]
s = Supervisor([Command("a", words, dict(os.environ), Path({str(tmp_path)!r}) / "a.log")],
               print, lambda *_: None, threading.Event())
s.start()
while "a" not in s.pids():
    time.sleep(0.01)
print(s.pids()["a"], flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while alive(child) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(child)


def test_statuses_in_words():
    assert describe(2) == "ended with status 2"
    assert describe(-9) == "was killed by SIGKILL"
    assert describe(-200) == "was killed by signal 200"
