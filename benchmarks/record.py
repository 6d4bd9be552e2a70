# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rows of benchmarks/results/*.jsonl: what was measured, on what, by which command."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Collection
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "torch", "rclpy", "rmw_fastrtps_cpp", "fastrtps")


def row(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """values with everything that someone needs to measure them again; where a row was put is not
    part of that."""
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    return {
        "benchmark": name,
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": re.sub(r" --out[ =]\S+", "", command),
        "commit": _commit(),
        "device": _device(),
        "versions": _versions(),
        **values,
    }


def save(file: str, entry: dict[str, Any], folder: Path | None = None) -> None:
    """Append to ``file`` of ``folder``; default: benchmarks/results."""
    path = (folder or ROOT / "benchmarks" / "results") / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as rows:
        rows.write(json.dumps(entry) + "\n")


def keeps(entry: dict[str, Any], wanted: dict[str, Any], least: Collection[str] = ()) -> bool:
    """Whether every value of ``entry`` that is wanted is no larger than there, or of those named
    in ``least``, no smaller; nan is neither."""
    return all(
        entry[name] >= bound if name in least else entry[name] <= bound
        for name, bound in wanted.items()
    )


def _commit() -> str:
    """Of the tree, or where there is no git, as ``PHYAI_COMMIT`` says."""
    if named := os.environ.get("PHYAI_COMMIT"):
        return named
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _device() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    cores = len(os.sched_getaffinity(0))
    load = round(os.getloadavg()[0], 2)
    found = {"cpu": model, "cores": cores, "load_before": load, "nice": os.nice(0)}
    group = Path("/proc/self/autogroup")  # Linux shares the CPU between sessions first
    if group.exists():
        found["session_nice"] = int(group.read_text(encoding="utf-8").split()[-1])
    return found


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if distro := os.environ.get("ROS_DISTRO"):
        found["ros"] = distro
    return found
