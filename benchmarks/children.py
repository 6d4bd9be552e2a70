# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Processes beside a benchmark: none outlives it, however it ends."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rclpy
from rclpy.signals import SignalHandlerOptions

from phyai_ros.tools.supervise import dies_with_parent


@contextlib.contextmanager
def python(
    *words: str | Path,
    stop: signal.Signals = signal.SIGTERM,
    patience: float = 10.0,
    **options: Any,
) -> Iterator[subprocess.Popen]:
    """A Python process of ``words``, ended with the block if it still runs: told to by ``stop``,
    killed after ``patience`` seconds. options: as subprocess.Popen takes them."""
    process = subprocess.Popen([*dies_with_parent(), sys.executable, *words], **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(stop)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def init_ros() -> None:
    """In such a process, in place of rclpy.init: SIGINT and SIGTERM end it there and then. rclpy
    would only shut its context down, and threads that wait for a message would go on waiting."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)


def up(*words: str) -> dict[str, Any]:
    """``phyai-ros up`` with these arguments to its end; its report."""
    with tempfile.TemporaryDirectory() as folder:
        given = ("-m", "phyai_ros.tools", "up", *words, f"out:={folder}")
        with python(*given, patience=20.0, stdout=sys.stderr) as graph:
            graph.wait()
        return json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
