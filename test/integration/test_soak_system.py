# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The soak's whole system: nothing of it stays, whatever fails at its end."""

from __future__ import annotations

import os

import pytest

from phyai_ros import robots
from phyai_ros.tools.soaking import processes
from phyai_ros.tools.soaking.system import System

DOMAIN = 47


@pytest.mark.slow
def test_no_process_and_no_mount_stays_where_reading_the_bags_fails(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    system = System(robots.load("ur10e"), "ur10e", "gr00t", 0, tmp_path, DOMAIN)
    system.start()
    assert len(processes.marked(system.environment[processes.MARK])) >= 4

    def fail():
        raise ValueError("a bag that nobody thought of")

    monkeypatch.setattr(system.recordings, "check", fail)
    with pytest.raises(ValueError, match="nobody thought of"):
        system.stop()
    assert processes.marked(system.environment[processes.MARK]) == []
    assert not os.path.ismount(system.disk.path)
