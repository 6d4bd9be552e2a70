# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""All findings in the order of cause and effect, the verdict, and both forms of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from phyai_ros.control.words import counted
from phyai_ros.nodes.convert import ns_to_seconds, stamp_to_ns
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.doctoring import control, middleware, sensors
from phyai_ros.tools.doctoring.findings import Finding, Level
from phyai_ros.tools.doctoring.listen import Heard
from phyai_ros.tools.doctoring.samples import Samples


@dataclass(frozen=True)
class Report:
    """verdict: one line. findings: what causes others first. streams: numbers, fit for JSON."""

    verdict: str
    moving: bool
    findings: list[Finding]
    streams: list[dict[str, Any]]
    settings: Mapping[str, str]
    delay: Mapping[str, float]
    clock_offset: float

    @property
    def status(self) -> int:
        """Exit status: 1 with any error."""
        return int(any(f.level is Level.ERROR for f in self.findings))

    def as_dict(self) -> dict[str, Any]:
        findings = [{**asdict(f), "level": f.level.value} for f in self.findings]
        return {
            "verdict": self.verdict,
            "moving": self.moving,
            "findings": findings,
            "streams": self.streams,
            "settings": dict(self.settings),
            "delay": dict(self.delay),
            "clock_offset": _number(self.clock_offset),
        }


def build(robot: Robot, heard: Heard, rmw: str) -> Report:
    found = [
        *control.nodes(robot, heard),
        *sensors.cameras(robot, heard),
        *sensors.joints(robot, heard),
        *control.robot_ready(robot, heard),
        *middleware.findings(heard, rmw),
        *control.chunks(robot, heard),
        *control.told(robot, heard),
        *control.state(robot, heard),
        *control.commands(robot, heard),
    ]
    moving = drives(heard, found)
    return Report(
        _verdict(moving, found),
        moving,
        found,
        [_numbers(samples) for samples in heard.streams()],
        middleware.settings(rmw),
        _delay(robot, heard),
        _clock_offset(heard),
    )


def drives(heard: Heard, found: list[Finding]) -> bool:
    """Whether the arm is driven. The last moment may fall between two episodes: then it counts that
    it was driven while this listened, and that nothing found keeps it from going on."""
    if control.handoff_state(heard) in control.ACTING:
        return True
    return control.acted(heard) > 0 and not any(f.blocks for f in found)


def _verdict(moving: bool, found: list[Finding]) -> str:
    blocking = [f for f in found if f.blocks]
    commands = [f for f in blocking if f.stream == "commands"]
    if moving and not commands:
        errors = sum(f.level is Level.ERROR for f in found)
        return "The arm is being driven" + (f", but {errors} things are wrong." if errors else ".")
    if not blocking:
        return "Nothing moves, and nothing that was looked at says why."
    first = commands[0] if moving else blocking[0]
    return f"Nothing moves because {first.stream}: {first.found}."


def _delay(robot: Robot, heard: Heard) -> dict[str, float]:
    newest = heard.states.facts.get("newest") if heard.states is not None else None
    chunk = heard.chunks.facts.get("newest") if heard.chunks is not None else None
    values: dict[str, float] = {}
    if newest is not None:
        values["expected ticks"] = newest.expected_delay
        values["measured ticks"] = newest.measured_delay
        values["tick ms"] = round(1000 / robot.control_rate, 3)
    if chunk is not None:
        step = ns_to_seconds(stamp_to_ns(chunk.step))
        values["chunk ticks"] = round(chunk.horizon * step * robot.control_rate)
    return values


def _clock_offset(heard: Heard) -> float:
    """s, the least age of any sensor sample; below zero, a sender's clock is ahead by that."""
    offsets = [s.offset for s in (*heard.cameras.values(), *heard.joints.values())]
    known = [o for o in offsets if not math.isnan(o)]
    return min(known, default=math.nan)


def _numbers(samples: Samples) -> dict[str, Any]:
    sensor = samples.label.startswith(("camera", "joints"))
    size = samples.facts.get("size")
    return {
        "stream": samples.label,
        "topic": samples.topic,
        "type": samples.type,
        "publishers": [e.node for e in samples.publishers],
        "subscribers": [e.node for e in samples.subscribers],
        "messages": samples.count,
        "rate_hz": _number(samples.rate),
        "jitter_s": _number(samples.jitter),
        "lost": _number(samples.lost) if sensor else None,
        "age_s": _number(samples.age) if sensor else None,
        "size": f"{size[1]}x{size[0]}" if size else None,
        "encoding": samples.facts.get("encoding"),
        "joints": sorted(samples.facts.get("names", ())) or None,
        "value": _plain(samples.facts.get("value")),
        "zero_stamps": samples.zero_stamps if sensor else None,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, bool, int, float)) else None


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def show(report: Report, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("stream", "Hz", "jitter ms", "age ms", "what"):
        table.add_column(name, justify="left" if name in ("stream", "what") else "right")
    for row in report.streams:
        table.add_row(
            row["stream"],
            _cell(row["rate_hz"], 1.0, 1),
            _cell(row["jitter_s"], 1000.0, 1),
            _cell(row["age_s"], 1000.0, 0),
            _what(row),
        )
    console.print(table)
    delay = ", ".join(f"{name} {value:g}" for name, value in report.delay.items())
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    console.print(f"delay: {delay or 'not known yet'}")
    console.print(f"here: {settings}", style="dim")
    for finding in report.findings:
        colour = "red" if finding.level is Level.ERROR else "yellow"
        text = f"{finding.level.value} {finding.stream}: {finding.found}"
        console.print(text, style=colour)
        console.print(f"  -> {finding.advice}")
    console.print(report.verdict, style="bold" if report.status == 0 else "bold red")


def _what(row: Mapping[str, Any]) -> str:
    parts = [row["topic"]]
    if not row["messages"]:
        parts.append("no message" if row["publishers"] else "no publisher")
    parts += [str(row[name]) for name in ("size", "encoding", "value") if row[name] is not None]
    if row["joints"]:
        parts.append(counted(len(row["joints"]), "joint"))
    return " ".join(parts)


def _cell(value: float | None, scale: float, digits: int) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"
