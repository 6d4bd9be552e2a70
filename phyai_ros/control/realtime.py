# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Can this delay be hidden behind execution, and with which execution horizon?

Notation of RTC (arXiv 2506.07339): horizon H, execution horizon s, delay d, all in ticks. Real time
needs d <= s <= H - d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWER_STEPS = "fewer denoising steps (of a policy that takes several)"
"""A handoff knows chunks, not what made them: ACT denoises nothing."""


def problem(delay: int, horizon: int, execution_horizon: int, period: float) -> str:
    """Why inference cannot keep up, and what would fix it; empty when it can. Ticks, seconds."""
    room = horizon - execution_horizon
    if delay <= room:
        return ""
    text = (
        f"inference takes {delay} ticks ({delay * period:.3f} s), but a chunk of {horizon} ticks "
        f"executed {execution_horizon} at a time leaves {room}"
    )
    if 2 * delay <= horizon:
        return f"{text}: set execution_horizon to {horizon - delay} or less"
    if delay < horizon:
        return (
            f"{text}: set execution_horizon to {horizon - delay} or less, and since that is less "
            f"than the delay the arm will still wait at times; a faster device, {FEWER_STEPS} or a "
            f"longer chunk would end that"
        )
    return (
        f"{text}; the delay exceeds the whole chunk, so the arm can only stop and go: use a "
        f"faster device, {FEWER_STEPS}, a longer chunk or a slower control_rate"
    )


@dataclass(frozen=True)
class AutoHorizon:
    """execution_horizon: ticks. starvation: probability per chunk that the arm runs out of rows,
    from the samples. feasible: whether that is within the bound asked for."""

    execution_horizon: int
    starvation: float
    feasible: bool


def starvation_probability(
    delays: Sequence[int], horizon: int, execution_horizon: int, margin: int = 1
) -> float:
    """Share of (previous, next) delay pairs in which the plan ends before the next chunk comes.

    A chunk first used at index d_prev has H - d_prev rows left. The next request goes out
    max(delays) + margin ticks before s rows are executed, and at once if s is less than that.
    """
    d = np.asarray(delays, dtype=np.int64)
    if not d.size:
        raise ValueError("delays: expected at least one sample")
    wait = max(execution_horizon - int(d.max()) - margin, 0)
    return float(np.mean(d[:, None] + d[None, :] + wait > horizon))


def auto_horizon(
    delays: Sequence[int], horizon: int, *, bound: float = 0.01, margin: int = 1
) -> AutoHorizon:
    """The smallest execution horizon that inference sustains (it is ready at the planned tick in
    all but ``bound`` of the chunks), with the starvation probability it brings."""
    if not 0.0 < bound < 1.0:
        raise ValueError(f"bound: expected a probability between 0 and 1, found {bound!r}")
    d = np.asarray(delays, dtype=np.int64)
    if not d.size:
        raise ValueError("delays: expected at least one sample")
    sustained = int(np.quantile(d, 1.0 - bound, method="higher")) + margin
    chosen = int(min(max(sustained, 1), horizon))
    risk = starvation_probability(delays, horizon, chosen, margin)
    return AutoHorizon(chosen, risk, risk <= bound)
