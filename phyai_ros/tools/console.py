# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The one way to people's terminals: progress, notices and errors go to ``console``, results to
``results()``. What is printed is data, whoever wrote it: never markup, never an emoji's name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

STYLES = {"info": "dim", "warning": "yellow", "error": "bold red"}


def shown(text: str) -> str:
    """What a file, a robot or a checkpoint says, as it may go to a terminal: whoever wrote it does
    not move the cursor, change colours or ring."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


class DataConsole(Console):
    """A console on which every string, in a table's cell too, stands as it is. Colours are given by
    ``style`` or by a rich Text."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Strings in anything that is printed come through here."""
        options.update(emoji=False, markup=False, highlight=False)
        return super().render_str(shown(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """And everything that is printed through here."""
        if isinstance(renderable, Text) and (plain := shown(renderable.plain)) != renderable.plain:
            renderable = renderable.copy()
            renderable.plain = plain  # as long as it was: its colours stay where they are
        return super().render(renderable, options)


# One object for all: a live progress line keeps its place only if every other line goes through it.
console = DataConsole(stderr=True, highlight=False, soft_wrap=True)


def results(width: int | None = None) -> DataConsole:
    """Standard output. width: columns where that is no terminal, which has its own: what is piped
    is not cut to a terminal's; None: as rich would have it."""
    return DataConsole(highlight=False, width=None if sys.stdout.isatty() else width)


def labelled(label: str, style: str, text: str) -> Text:
    """A coloured word before a text."""
    return Text.assemble((label, style), text)


def say(level: str, text: str, source: str = "") -> None:
    """One notice, above any progress line. level: info, warning or error."""
    prefix = f"[{source}] " if source else ""
    console.print(f"{prefix}{text}", style=STYLES[level])


def fail(text: str) -> None:
    """An error that ends the command."""
    console.print(f"error: {text}", style="red")


def interactive() -> bool:
    """Whether a person watches: no progress line is drawn otherwise."""
    return sys.stderr.isatty()
