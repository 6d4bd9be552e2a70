# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros watch``: what a running system does, live in a terminal."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.live import Live

from phyai_ros.tools.console import results
from phyai_ros.tools.watching.model import WatchModel
from phyai_ros.tools.watching.view import render

_EPILOG = """examples:
  phyai-ros watch
  phyai-ros watch --once          one picture after two seconds, also into a file or a pipe

Listens to the small topics only (no images), so it does not disturb what it shows. Ctrl-C ends it.
exit status: 0; with --once 1 when handoff_node was not heard
"""
ONCE_AFTER = 2.0
"""Seconds of listening for a single picture."""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="phyai-ros watch",
        description="State, queue, delay, stages, ages and counters of a running system.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="print one picture and end")
    parser.add_argument("--rate", type=float, default=5.0, help="pictures a second (%(default)s)")
    options = parser.parse_args(list(words))
    if not 0.1 <= options.rate <= 30.0:
        parser.error(f"--rate: expected 0.1 to 30, found {options.rate:g}")
    console = results()
    unicode = console.encoding.lower().startswith("utf")
    if not unicode and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an instruction may be in any language
    model = WatchModel()

    def picture() -> Any:
        return render(model, time.monotonic(), console.width, unicode=unicode)

    if options.once or not sys.stdout.isatty():
        _listen(model, ONCE_AFTER, lambda: None)
        console.print(picture())
        return int(model.state is None)
    with (
        Live(picture(), console=console, screen=True, auto_refresh=False) as live,
        contextlib.suppress(KeyboardInterrupt),
    ):
        period = 1.0 / options.rate
        _listen(model, None, lambda: live.update(picture(), refresh=True), period)
    return 0


def _listen(
    model: WatchModel, seconds: float | None, show: Callable[[], None], period: float = 0.2
) -> None:
    """Fill the model and call ``show`` every ``period``; seconds: None for as long as one looks."""
    from diagnostic_msgs.msg import DiagnosticArray
    from std_msgs.msg import String

    from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
    from phyai_ros.nodes import qos
    from phyai_ros.nodes.participant import Participant

    with Participant("phyai_watch") as here:
        for kind, topic, take, profile in (
            (HandoffState, "phyai/handoff_state", model.on_state, qos.handoff_state()),
            (ActionChunk, "phyai/chunk", model.on_chunk, qos.chunk()),
            (InferenceRequest, "phyai/request", model.on_request, qos.request()),
            (String, "instruction", model.on_instruction, qos.instruction()),
            (DiagnosticArray, "/diagnostics", model.on_diagnostics, qos.diagnostics()),
        ):
            here.node.create_subscription(kind, topic, _timed(take), profile)
        end = None if seconds is None else time.monotonic() + seconds
        due = time.monotonic()
        while end is None or time.monotonic() < end:
            left = due - time.monotonic()
            if left <= 0:
                show()
                due = time.monotonic() + period
                continue
            here.spin(left)


def _timed(take: Callable[[Any, float], None]) -> Callable[[Any], None]:
    def on_message(message: Any) -> None:
        take(message, time.monotonic())

    return on_message
