# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a run proves: each fault, and the whole. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from phyai_ros.tools.soaking import schedule
from phyai_ros.tools.soaking.schedule import BY_NAME, Fault, Kind
from phyai_ros.tools.soaking.timeline import Timeline

NAMED_WITHIN = 1.0
"""s from a fault's begin until /diagnostics names it."""
RECOVERED_WITHIN = 5.0
"""s from a fault's end until a fresh chunk drives the arm."""
GROWTH = 0.01
"""Share by which a process's own memory may grow."""
OLD = 600.0
"""s that a process must have lived for its growth to say anything."""
LAST_SECOND = 1.0
"""s between a recorder's end and the newest message of its bag."""
MOTION = 0.1
"""rad or m by which a joint must have moved in a fault that shows only then."""
LATENCY = 1.0
"""s before its end at which it must have."""
ECHO = 0.5
"""s after a fault's end in which its effect may still begin."""


@dataclass(frozen=True)
class Injected:
    """began, ended: s, wall clock. A blow ends when what it ended is started again."""

    fault: Fault
    began: float
    ended: float


@dataclass(frozen=True)
class Outcome:
    """named, recovered: s after the fault's begin and end, None: never, or it need not be.
    harmless: the arm was driven all the time. problems: (what, whether only a time is)."""

    injected: Injected
    named: float | None
    by: str
    recovered: float | None
    harmless: bool
    problems: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Bag:
    """A recording that ended. gap: s from its end to its newest message. trouble: why it cannot be
    read, empty if it can."""

    path: str
    messages: int
    gap: float
    trouble: str = ""


@dataclass(frozen=True)
class Memory:
    """Own memory of one process, KiB, early and late in its life of ``seconds``."""

    process: str
    seconds: float
    early: float
    late: float

    @property
    def growth(self) -> float:
        return self.late / self.early - 1.0


@dataclass
class Verdict:
    """problems: what failed. late: bounds of time that were not kept, which fail unless the machine
    is shared."""

    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems and not self.late


def outcome(injected: Injected, timeline: Timeline, patience: float = 1.0) -> Outcome:
    """patience: factor on every bound of time, for a machine that others use too."""
    fault, kind = injected.fault, BY_NAME[injected.fault.kind]
    harmless = timeline.acted_throughout(injected.began, injected.ended + ECHO)
    recovered = 0.0 if harmless else _recovered(injected, timeline)
    named, by = _named(injected, timeline, kind)
    problems = []
    hidden = kind.seen_moving and timeline.moved(injected.began, injected.ended - LATENCY) < MOTION
    if kind.names is not None and not ((not kind.must_show or hidden) and harmless):
        if named is None:
            problems.append((f"{fault}: no diagnostics named it", False))
        elif named > NAMED_WITHIN * patience:
            problems.append((f"{fault}: named after {named:.2f} s", True))
    if recovered is None:
        problems.append((f"{fault}: no recovery", False))
    elif recovered > RECOVERED_WITHIN * patience:
        problems.append((f"{fault}: recovered {recovered:.2f} s after its end", True))
    return Outcome(injected, named, by, recovered, harmless, tuple(problems))


def _recovered(injected: Injected, timeline: Timeline) -> float | None:
    at = timeline.resumed(injected.ended)
    return None if at is None else at - injected.ended


def _named(injected: Injected, timeline: Timeline, kind: Kind) -> tuple[float | None, str]:
    """When, after its begin, and in which words; only what was said before it was over and
    recovered from counts. What need not show begins with its effect."""
    if kind.names is None:
        return None, ""
    began = injected.began
    if not kind.must_show:
        began = timeline.stopped(began) or began
    pattern = re.compile(schedule.pattern(kind.names, injected.fault.parameters), re.IGNORECASE)
    resumed = timeline.resumed(injected.ended)
    end = max(injected.ended + ECHO, resumed if resumed is not None else float("inf"))
    for said in timeline.said:
        if began <= said.time <= end and said.level > 0 and pattern.search(said.text):
            return said.time - began, said.text
    return None, ""


def judge(
    injected: Iterable[Injected],
    timeline: Timeline,
    memory: Sequence[Memory],
    bags: Sequence[Bag],
    orphans: Sequence[str],
    broken: Sequence[str],
    patience: float = 1.0,
) -> Verdict:
    """broken: what went wrong with the run itself, for people."""
    verdict = Verdict(problems=list(broken))
    for one in injected:
        result = outcome(one, timeline, patience)
        verdict.outcomes.append(result)
        for text, only_late in result.problems:
            (verdict.late if only_late else verdict.problems).append(text)
    verdict.problems += [f"command outside limits: {text}" for _, text in timeline.violations]
    verdict.problems += [f"not finite: {text}" for _, text in timeline.not_finite]
    verdict.problems += [
        f"{m.process}: memory grew by {100 * m.growth:.2f} % in {m.seconds:.0f} s "
        f"({m.early / 1024:.1f} to {m.late / 1024:.1f} MiB)"
        for m in memory
        if m.seconds >= OLD and m.growth > GROWTH
    ]
    for bag in bags:
        if bag.trouble:
            verdict.problems.append(f"{bag.path}: {bag.trouble}")
        elif bag.gap > LAST_SECOND * patience:
            verdict.late.append(f"{bag.path}: its last {bag.gap:.1f} s are missing")
    verdict.problems += [f"orphan process: {orphan}" for orphan in orphans]
    if not timeline.counts.get("commands"):
        verdict.problems.append("no command was ever sent")
    if unplaced := timeline.counts.get("unplaced"):
        verdict.problems.append(f"first commands that no position was heard after: {unplaced}")
    return verdict
