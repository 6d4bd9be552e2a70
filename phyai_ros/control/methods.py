# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Handoff methods: how a new chunk joins the one being executed.

Every method sees plans on the absolute tick axis, so a tick means the same moment in both, and rows
before the tick of the handoff always come from the old chunk. The guided methods (``rtc_*``,
``seam``) shape the new chunk inside the solver, from the left-over actions of the request; here
they replace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from phyai_ros.control.chunk import Plan


class Method(Protocol):
    """overlapped: ask for the next chunk while this one is executed (else: when the arm stands).
    eager: ask again as soon as an answer has come. guidance: what the solver has to do, as in
    engine.types.Guidance.method, or None. conditioned: the chunk holds only for delays up to the
    one it was made for (its ``committed`` rows), later ones are discarded."""

    name: str
    overlapped: bool
    eager: bool
    guidance: str | None
    conditioned: bool

    def splice(self, old: Plan | None, new: Plan, tick: int, held: np.ndarray) -> Plan:
        """The plan to execute from ``tick`` on. held: bool [joints], columns never mixed."""
        ...

    def clear(self) -> None:
        """A new epoch: nothing of the past may enter."""
        ...


class Replace:
    """The new chunk from its true index on."""

    name = "replace"
    overlapped = True
    eager = False
    guidance: str | None = None
    conditioned = False

    def splice(self, old: Plan | None, new: Plan, tick: int, held: np.ndarray) -> Plan:
        return new

    def clear(self) -> None:
        pass


class Synchronous(Replace):
    """Stop, look, think, move: the next observation is taken when the last row has been executed
    and the arm stands. The baseline the others are measured against."""

    name = "synchronous"
    overlapped = False


class Blend(Replace):
    """Over the ticks that both chunks have, the weight moves linearly from the old to the new.

    ticks: the longest overlap to blend, None for all of it. Grippers switch at once. Averaging two
    different ways around an obstacle leads into it: prefer guidance where the policy can.
    """

    name = "blend"

    def __init__(self, blend_ticks: int | None = None) -> None:
        if blend_ticks is not None and blend_ticks < 1:
            raise ValueError(f"blend_ticks: expected at least 1, found {blend_ticks}")
        self._ticks = blend_ticks

    def splice(self, old: Plan | None, new: Plan, tick: int, held: np.ndarray) -> Plan:
        if old is None:
            return new
        shared = min(old.end, new.end) - tick
        if self._ticks is not None:
            shared = min(shared, self._ticks)
        if shared < 1:
            return new
        weight = (np.arange(shared) + 1.0)[:, None] / (shared + 1.0)
        fresh = new.between(tick, tick + shared)
        mixed = (1.0 - weight) * old.between(tick, tick + shared) + weight * fresh
        return _with_rows(new, tick, np.where(held, fresh, mixed))


class Ensemble(Replace):
    """ACT's temporal ensembling (arXiv 2304.13705): an inference as often as possible, and each
    tick the average of all predictions for it, weights exp(-decay * i), i = 0 the oldest.

    Every chunk counts as long as it reaches the tick, so at most one horizon of chunks is kept.
    Grippers follow the newest chunk.
    """

    name = "ensemble"
    eager = True

    def __init__(self, decay: float = 0.01) -> None:
        if not np.isfinite(decay):
            raise ValueError(f"decay: expected a finite number, found {decay}")
        self._decay = decay
        # Of each tick from ``_first`` on: the weighted sum of its predictions, that of their
        # weights, their number.
        self._first, self._sums = 0, np.zeros((0, 0))

    def splice(self, old: Plan | None, new: Plan, tick: int, held: np.ndarray) -> Plan:
        fresh = new.between(tick, new.end)
        n, joints = fresh.shape
        ahead = self._sums[tick - self._first :]
        sums = np.zeros((max(n, len(ahead)), joints + 2))
        if len(ahead):
            sums[: len(ahead)] = ahead
        # i counts the predictions of this very tick, so it differs where a plan has ended.
        weight = np.exp(-self._decay * sums[:n, -1:])
        sums[:n, :joints] += weight * fresh
        sums[:n, joints] += weight[:, 0]
        sums[:n, -1] += 1.0
        self._first, self._sums = tick, sums
        return _with_rows(new, tick, np.where(held, fresh, sums[:n, :joints] / sums[:n, -2:-1]))

    def clear(self) -> None:
        self._first, self._sums = 0, np.zeros((0, 0))


def _with_rows(plan: Plan, tick: int, rows: np.ndarray) -> Plan:
    """The plan with other rows from a tick on."""
    start = tick - plan.first
    changed = plan.rows.copy()
    changed[start : start + len(rows)] = rows
    return replace(plan, rows=changed)


class RtcIdentity(Replace):
    """Real-time chunking with the network's Jacobian taken as identity, as LeRobot does it."""

    name = "rtc_identity"
    guidance: str | None = "rtc_identity"


class RtcVjp(Replace):
    """Real-time chunking as published (arXiv 2506.07339): a vector-Jacobian product a step."""

    name = "rtc_vjp"
    guidance: str | None = "rtc_vjp"


class RtcOverlap(Replace):
    """GR00T N1.7's own real-time chunking: the overlap starts from the old chunk instead of from
    noise, its committed rows do not move."""

    name = "rtc_overlap"
    guidance: str | None = "rtc_overlap"


class RtcTrained(Replace):
    """Training-time real-time chunking (arXiv 2512.05964): the committed prefix is an input of the
    network. A chunk that comes later than the prefix it was made for is discarded."""

    name = "rtc_trained"
    guidance: str | None = "rtc_trained"
    conditioned = True


class Seam(Replace):
    """Seam guidance (arXiv 2607.04609): each solver step pulls the first rows to the old tail."""

    name = "seam"
    guidance: str | None = "seam"


METHODS: dict[str, Callable[..., Method]] = {
    m.name: m for m in (Synchronous, Replace, Blend, Ensemble)
}
"""Methods that ask nothing of the policy."""
GUIDED: dict[str, Callable[..., Method]] = {
    m.name: m for m in (RtcIdentity, RtcVjp, RtcOverlap, RtcTrained, Seam)
}
"""Methods that need a policy whose ``PolicySpec.guidance_methods`` has them, and whoever calls it
to hand over the left-over actions (control.leftover)."""
NAMES = tuple(sorted({**METHODS, **GUIDED}))


def make(name: str, **options: Any) -> Method:
    """A handoff method by name. options: only those its class takes (``blend_ticks`` of blend,
    ``decay`` of ensemble). Raises ValueError that lists what there is."""
    every = {**METHODS, **GUIDED}
    if name not in every:
        raise ValueError(f"handoff: expected one of {sorted(every)}, found {name!r}")
    known = [p for p in inspect.signature(every[name]).parameters if p not in ("args", "kwargs")]
    for option in options:
        if option not in known:
            raise ValueError(f"handoff {name}: expected options among {known}, found {option!r}")
    return every[name](**options)


def check_guidance(name: str, possible: Sequence[str], checkpoint: str) -> None:
    """Raise ValueError when a policy cannot do the guidance a method needs, saying what it can do.

    possible: ``PolicySpec.guidance_methods``.
    """
    guidance = make(name).guidance
    if guidance is not None and guidance not in possible:
        fits = sorted({*METHODS, *(m for m in GUIDED if m in possible)})
        raise ValueError(
            f"handoff: {name!r} needs a policy that can be guided so; {checkpoint} can do {fits}"
        )
