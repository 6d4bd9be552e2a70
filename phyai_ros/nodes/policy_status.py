# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""policy_node's lines of /diagnostics."""

from __future__ import annotations

import math
from functools import partial

from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, Status
from phyai_ros.nodes.inference import InferenceLoop
from phyai_ros.nodes.sensors import FrameSource

OVERDUE = 5.0
"""Seconds, or three times the p99 of its latency, after which an answer is remarked on."""


def inference_status(loop: InferenceLoop, policy: str, instruction: str, now: float) -> Status:
    """now: steady seconds."""
    latency, wait = loop.latency.percentiles(), loop.wait.percentiles()
    under_way = loop.under_way(now)
    trouble = loop.troubles.lately
    usual = 0.0 if math.isnan(latency[1]) else latency[1]
    if under_way > max(OVERDUE, 3.0 * usual):
        level = WARN
        message = f"a request is under way for {under_way:.0f} s: does the device hang?"
    elif trouble is not None:
        level, message = ERROR, trouble
    elif loop.answered == 0:
        level, message = WARN, "no request answered yet"
    else:
        level, message = OK, "ok"
    values = {
        "policy": policy,
        "instruction": instruction,
        "answered": loop.answered,
        "dropped requests": loop.dropped,
        "replaced requests": loop.slot.replaced,
        "latency p50 s": latency[0],
        "latency p99 s": latency[1],
        "wait p50 s": wait[0],
        "wait p99 s": wait[1],
        **{f"stage {name} s": float(seconds) for name, seconds in dict(loop.stages).items()},
    }
    return Status("inference", level, message, values, partial(loop.troubles.told, trouble))


def aligner_status(source: FrameSource) -> Status:
    """Why no frame could be assembled now; per-stream age, and what was dropped and why."""
    counters = source.aligner.counters
    ages = source.aligner.ages(source.now())
    trouble = source.aligner.trouble(source.now())
    missing = [name for name, age in ages.items() if math.isinf(age)]
    if trouble is None:
        text = "ok"
    elif len(missing) > 1:
        text = f"nothing usable yet from {', '.join(missing)}"
    else:
        text = str(trouble)
    values: dict[str, object] = {f"age {name} s": float(age) for name, age in ages.items()}
    for name, dropped in source.aligner.dropped().items():
        if dropped:
            counts = ", ".join(f"{reason}: {n}" for reason, n in sorted(dropped.items()))
            values[f"dropped {name}"] = counts
    if counters.foreign_joints:
        values["joints of a second publisher"] = ", ".join(dict(counters.foreign_joints))
    values["time went back"] = counters.time_went_back
    return Status(
        "observation",
        OK if trouble is None else WARN,
        text,
        values,
    )
