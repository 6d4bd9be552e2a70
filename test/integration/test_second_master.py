# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A handoff_node started beside one that drives the arm stays silent; one started after another was
killed does not."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from driven_arm import PATIENCE, Driven

DOMAIN = 58


@pytest.fixture
def driven():
    made = Driven("ur10e", DOMAIN, 0.0)
    yield made
    made.close()


def until_commands(driven, more):
    seen, end = len(driven.commands), time.monotonic() + PATIENCE
    while len(driven.commands) < seen + more:
        assert time.monotonic() < end, "no command"
        time.sleep(0.05)


def read(process):
    """What it says, line by line, as it says it."""
    said = []
    threading.Thread(target=lambda: said.extend(process.stdout), daemon=True).start()
    return said


def faults(said):
    return [line for line in said if "FAULT" in line]


def test_the_second_one_stops_and_the_first_goes_on(driven):
    """Where the machine is so slow that the second finds the first only after its own first
    command, either may be the one that stands, and perhaps both do: never do both drive."""
    until_commands(driven, 20)
    (gid,) = driven.senders
    first, process = read(driven.process), driven.start("ur10e")
    second = read(process)
    try:
        end = time.monotonic() + PATIENCE
        while not faults(first) and not faults(second):
            assert time.monotonic() < end, (first, second)
            assert process.poll() is None, second
            time.sleep(0.05)
        time.sleep(1.0)
        driven.senders.clear()
        time.sleep(1.0)
        assert len(driven.senders) <= 1, (first, second)
        if not faults(first):
            until_commands(driven, 60)
            assert driven.senders == {gid}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    (line, *_) = faults(second) or faults(first)
    assert "sends commands on /forward_position_controller/commands" in line
    assert "UNKNOWN" not in line


def test_one_that_was_killed_is_no_master_for_the_next(driven):
    """It stays listed for some 20 s; the next one drives the arm long before."""
    until_commands(driven, 20)
    driven.process.kill()
    driven.process.wait()
    driven.process = driven.start("ur10e")
    until_commands(driven, 60)
    assert len(driven.senders) == 2
    driven.process.send_signal(signal.SIGTERM)
    assert "FAULT" not in driven.process.communicate(timeout=PATIENCE)[0]
