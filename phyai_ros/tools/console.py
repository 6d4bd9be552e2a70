# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The one console people read: progress, notices and errors. Results for programs go to stdout."""

from __future__ import annotations

import sys

from rich.console import Console

# One object for all: a live progress line keeps its place only if every other line goes through it.
console = Console(stderr=True, highlight=False, soft_wrap=True)
STYLES = {"info": "dim", "warning": "yellow", "error": "bold red"}


def shown(text: str) -> str:
    """What a file, a robot or a checkpoint says, as it may go to a terminal: whoever wrote it does
    not move the cursor, change colours or ring."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def say(level: str, text: str, source: str = "") -> None:
    """One notice, above any progress line. level: info, warning or error."""
    prefix = f"[{source}] " if source else ""
    # The text is data: square brackets in it are not markup.
    console.print(shown(f"{prefix}{text}"), style=STYLES[level], markup=False)


def fail(text: str) -> None:
    """An error that ends the command."""
    console.print("error: " + shown(text), style="red", markup=False)


def interactive() -> bool:
    """Whether a person watches: no progress line is drawn otherwise."""
    return sys.stderr.isatty()
