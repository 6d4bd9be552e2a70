# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The dashboard's picture of a WatchModel: nothing but text, so it works wherever text does."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from phyai_ros.control.states import State
from phyai_ros.tools.watching.model import HISTORY, WatchModel

SILENT = 1.0
"""Seconds without a word after which the handoff's numbers are no longer shown as true."""
COLOURS = {
    State.WAITING: "yellow",
    State.RAMPING: "cyan",
    State.EXECUTING: "green",
    State.STARVED: "bold red",
    State.HOLDING: "yellow",
    State.FAULT: "bold white on red",
}
LETTERS = {
    State.WAITING: "w",
    State.RAMPING: "r",
    State.EXECUTING: "e",
    State.STARVED: "S",
    State.HOLDING: "h",
    State.FAULT: "F",
}
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " ..::||##"
_TROUBLES = 5


def render(
    model: WatchModel, now: float, width: int = 80, *, unicode: bool = True
) -> RenderableType:
    """now: the clock of the model's arrivals. width: columns. unicode: else ASCII alone."""
    width = max(40, min(width, 120))
    parts: list[RenderableType] = [_head(model, now)]
    if model.state is not None:
        parts += [_queue(model, width, unicode), _history(model, now, width, unicode)]
    parts += [Text(), _stages(model, width, unicode), Text(), _streams(model, width, unicode)]
    if model.state is not None:
        parts += [Text(), _counters(model, now)]
    return Group(*parts, *_troubles(model, now))


def _head(model: WatchModel, now: float) -> Text:
    silence = model.silence(now)
    if model.state is None:
        return Text(
            "no word from handoff_node yet: is it running, in this ROS_DOMAIN_ID?", "yellow"
        )
    state = State(model.state.state)
    line = Text.assemble((f" {state.name} ", f"reverse {COLOURS[state]}"), " ", model.state.reason)
    if silence > SILENT:
        line = Text(f" handoff_node is silent for {silence:.0f} s ", "bold white on red")
    line.append(f"\nepoch {model.state.epoch}", "dim")
    line.append(f'  "{model.instruction}"' if model.instruction else "  no instruction")
    return line


def _queue(model: WatchModel, width: int, unicode: bool) -> Text:
    state, whole = model.state, model.chunk_ticks
    total = max(whole, state.index + state.remaining + 1)
    line = Text("queue  ", "bold")
    room = max(10, width - 48)
    left = round(room * state.remaining / total) if total else 0
    here = round(room * (state.index + 1) / total) if state.request_id else 0
    done, more = ("█", "▒") if unicode else ("#", "=")
    line.append(done * min(here, room - left), "dim")
    line.append(more * left, "green" if left else "red")
    line.append("·" * (room - min(here, room - left) - left) if unicode else "", "dim")
    seconds = state.remaining * model.tick_seconds
    line.append(f" row {state.index}, {state.remaining} left")
    line.append(f" ({seconds:.2f} s)" if not math.isnan(seconds) else "")
    line.append("\ndelay  ", "bold")
    late = state.measured_delay > state.expected_delay > 0
    line.append(f"{state.measured_delay} ticks measured", "yellow" if late else "")
    line.append(f", {state.expected_delay} expected, a chunk lasts {whole or '?'}")
    return line


def _history(model: WatchModel, now: float, width: int, unicode: bool) -> Text:
    """Two lines: the queue's lowest and the worst state, one column a slice of the past."""
    columns = width - 7
    slices: list[list[tuple[State, int]]] = [[] for _ in range(columns)]
    for at, state, remaining in model.states:
        place = columns - 1 - int((now - at) / HISTORY * columns)
        if 0 <= place < columns:
            slices[place].append((state, remaining))
    highest = max((r for _, _, r in model.states), default=0) or 1
    bars = _EIGHTHS if unicode else _ASCII
    line = Text("left   ", "bold")
    for seen in slices:
        if seen:
            low = min(remaining for _, remaining in seen)
            line.append(bars[round(low / highest * 8)], "green" if low else "red")
        else:
            line.append(" ")
    line.append("\nstate  ", "bold")
    for seen in slices:
        if seen:
            worst = max((state for state, _ in seen), key=_badness)
            line.append(LETTERS[worst], COLOURS[worst])
        else:
            line.append(" ")
    return line


def _badness(state: State) -> int:
    order = (
        State.EXECUTING, State.RAMPING, State.WAITING, State.HOLDING, State.STARVED, State.FAULT,
    )  # fmt: skip
    return order.index(state)


def _stages(model: WatchModel, width: int, unicode: bool) -> Table:
    stages = model.stages()
    longest = max((v for pair in stages.values() for v in pair if not math.isnan(v)), default=1.0)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stage", min_width=10)
    table.add_column("ms", justify="right", min_width=6)
    table.add_column("median", justify="right", min_width=6)
    table.add_column("")
    for name, (newest, median) in stages.items():
        table.add_row(
            name, _ms(newest), _ms(median), _bar(newest, longest, max(10, width - 30), unicode)
        )
    return table


def _streams(model: WatchModel, width: int, unicode: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stream", min_width=10)
    table.add_column("age ms", justify="right", min_width=6)
    table.add_column("")
    ages = model.ages()
    longest = max([0.2, *(a for a in ages.values() if math.isfinite(a))])
    for name, age in ages.items():
        if math.isfinite(age):
            bar = _bar(age, longest, max(10, width - 23), unicode)
            table.add_row(name, _ms(age), bar)
        else:
            table.add_row(name, "never", "", style="red")
    if not ages:
        table.add_row("not told by policy_node yet", "", "", style="dim")
    return table


def _counters(model: WatchModel, now: float) -> Text:
    state = model.state
    line = Text()
    pairs = (
        ("ticks", state.ticks, False),
        ("missed", state.missed_ticks, True),
        ("starved", state.starved_ticks, True),
        ("limited", state.limited_ticks, False),
        ("late", state.late_chunks, True),
        ("dropped", state.dropped_chunks, True),
    )
    for name, value, bad in pairs:
        line.append(f"{name} ", "dim")
        line.append(f"{value}  ", "yellow" if bad and value else "")
    line.append("\n")
    for name, text in (
        ("chunks", f"{model.chunks} ({_number(model.chunk_rate(now))} a second)"),
        ("action age", f"{_ms(state.action_age)} ms"),
        ("tick jitter p99", f"{_ms(model.jitter_p99())} ms"),
    ):
        line.append(f"{name} ", "dim")
        line.append(f"{text}  ")
    return line


def _troubles(model: WatchModel, now: float) -> list[Text]:
    troubles = model.troubles(now)
    lines = [
        Text.assemble((name, "red" if level > 1 else "yellow"), f": {message}")
        for level, name, message in troubles[:_TROUBLES]
    ]
    if len(troubles) > _TROUBLES:
        lines.append(Text(f"and {len(troubles) - _TROUBLES} more in /diagnostics", "dim"))
    return [Text(), *lines] if lines else []


def _bar(value: float, longest: float, room: int, unicode: bool) -> Text:
    if not 0.0 <= value <= longest:
        return Text()
    length = round(room * value / longest) if longest else 0
    return Text(("█" if unicode else "#") * max(1, length), "cyan")


def _ms(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{1000 * seconds:.1f}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"
