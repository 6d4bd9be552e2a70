# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The processes of a run, found by a mark in the environment that every descendant inherits."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

MARK = "PHYAI_SOAK_RUN"
_NAMES = {
    "phyai_ros.nodes.policy_node": "policy_node",
    "phyai_ros.nodes.handoff_node": "handoff_node",
    "phyai_ros.nodes.sim_node": "sim_node",
    "phyai_ros.tools up": "up",
    "phyai_ros.tools record": "record",
}


@dataclass(frozen=True)
class Found:
    """name: which of this package's it is, else the command line."""

    pid: int
    name: str


def marked(run: str) -> list[Found]:
    """The living processes of a run but this one."""
    wanted = f"{MARK}={run}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # Somebody else's, or gone meanwhile.
        with contextlib.suppress(OSError):
            if int(folder.name) == os.getpid():
                continue
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if not any(words) or _state(folder) == "Z":
                continue
            found.append(Found(int(folder.name), _name(" ".join(words).strip())))
    return found


def _state(folder: Path) -> str:
    stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    return stat.rsplit(")", 1)[1].split()[0]


def _name(line: str) -> str:
    return next((name for part, name in _NAMES.items() if part in line), line)
