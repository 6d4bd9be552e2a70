# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node's lines of /diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from phyai_ros.control.handoff import Handoff
from phyai_ros.control.states import State
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, Status
from phyai_ros.nodes.handoff_sink import HandoffSink
from phyai_ros.nodes.handoff_watch import STANDSTILL, HandoffWatch
from phyai_ros.nodes.outputs import Output
from phyai_ros.nodes.pacer import Pacer

_LEVELS = {
    State.WAITING: WARN,
    State.RAMPING: OK,
    State.EXECUTING: OK,
    State.STARVED: ERROR,
    State.HOLDING: WARN,
    State.FAULT: ERROR,
}


def handoff_status(
    handoff: Handoff, sink: HandoffSink, failure: str | None, seen: HandoffWatch
) -> Status:
    """failure: of the control loop, which has ended then."""
    counters = handoff.counters
    age, deliver = sink.age.percentiles(), sink.deliver.percentiles()
    notes: list[str | None] = [handoff.problem()]
    if handoff.stalled:
        notes.append(f"{handoff.stalled} stands closed without a new command: is the task stuck?")
    lately = seen.lately()
    notes += [text for kind, text in lately.items() if kind != STANDSTILL]
    level = WARN if any(notes) else OK
    notes.append(lately[STANDSTILL])
    remarks = "; ".join(note for note in notes if note)
    return Status(
        "handoff",
        ERROR if failure else max(_LEVELS[sink.state], level),
        f"FAULT: {failure}"
        if failure
        else f"{sink.state.name}: {sink.reason}" + (f"; {remarks}" if remarks else ""),
        {
            "execution horizon ticks": handoff.execution_ticks,
            "epoch": handoff.epoch,
            "instruction": handoff.instruction,
            "starved ticks": counters.starved_ticks,
            "limited ticks": handoff.guard.limited_ticks,
            "limits hit": _counts({" ".join(k): n for k, n in _items(handoff.guard.interventions)}),
            "late chunks": counters.late_chunks,
            "dropped chunks": _counts(dict(_items(counters.dropped))),
            "newest drop": handoff.last_drop or "none",
            "request timeouts": counters.request_timeouts,
            "requests unanswered in a row": seen.unanswered,
            "unusable joint states": counters.bad_measurements,
            "arm moved while it stood": counters.rebases,
            "tracking error, share of limit": handoff.tracking.error if handoff.tracking else 0.0,
            "held for tracking": handoff.tracking.count if handoff.tracking else 0,
            "clock jumps": counters.clock_jumps,
            "gripper stalls": handoff.stall.count if handoff.stall is not None else 0,
            "action age p50 s": age[0],
            "action age p99 s": age[1],
            "deliver p50 s": deliver[0],
            "deliver p99 s": deliver[1],
        },
        partial(seen.told, lately),
    )


def timer_status(
    period: float, handoff: Handoff, sink: HandoffSink, pacer: Pacer | None, standstill: str
) -> Status:
    """standstill: why there are no ticks at all, empty when there are."""
    jitter = sink.jitter.percentiles()
    missed = sink.missed
    refusal = pacer.refusal if pacer is not None else None
    return Status(
        "control timer",
        ERROR if standstill else WARN if missed else OK,
        standstill or (f"{missed} deadlines missed" if missed else "ok"),
        {
            "period s": period,
            "ticks": handoff.counters.ticks,
            "missed ticks": missed,
            "jitter p50 s": jitter[0],
            "jitter p99 s": jitter[1],
            "scheduling": refusal or "as asked for",
        },
    )


def output_status(output: Output) -> Status:
    trouble = output.trouble()
    return Status("output", ERROR if trouble else OK, trouble or "ok", {"topic": output.topic})


def _items(counter: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return list(dict(counter).items())  # the control thread goes on counting


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {n}" for what, n in sorted(counts.items())) or "none"
