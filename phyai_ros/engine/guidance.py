# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A request's Guidance (robot units) -> the solver's guide (normalised tensors)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from phyai_ros.engine import rtc, solver
from phyai_ros.engine.models.base import GuidableAdapter
from phyai_ros.engine.types import Guidance, Observation, PolicyError

RTC_IDENTITY = "rtc_identity"
RTC_OVERLAP = "rtc_overlap"
RTC_VJP = "rtc_vjp"
RTC_TRAINED = "rtc_trained"
SEAM = "seam"
METHODS = (RTC_IDENTITY, RTC_OVERLAP, RTC_VJP, RTC_TRAINED, SEAM)
SEAM_SHARE = 0.4
"""Share of the horizon that ``seam`` pulls in full: 20 rows of 50 in the paper."""


def guide(
    guidance: Sequence[Guidance | None],
    observations: Sequence[Observation],
    adapter: GuidableAdapter,
    device: torch.device,
) -> solver.Guide | None:
    """One guide for the batch. Requests without guidance are left alone; all that have one must
    use the same method."""
    methods = {g.method for g in guidance if g is not None}
    if not methods:
        return None
    if len(methods) > 1:
        raise PolicyError(f"one batch, several guidance methods: {', '.join(sorted(methods))}")
    shape = adapter.noise_shape(len(observations))
    target = np.zeros(shape, np.float32)
    for i, (wish, observation) in enumerate(zip(guidance, observations, strict=True)):
        if wish is not None and len(wish.leftover):
            rows = adapter.encode(np.asarray(wish.leftover, np.float64), observation)
            target[i, : len(rows)] = rows
    y = torch.from_numpy(target).to(device)
    if methods == {RTC_IDENTITY}:
        return solver.RtcIdentity(y, _identity_weights(guidance, shape, adapter).to(device))
    if methods == {RTC_VJP}:
        return rtc.RtcVjp(y, _identity_weights(guidance, shape, adapter).to(device))
    if methods == {RTC_TRAINED}:
        return rtc.RtcTrained(y, _committed(guidance, shape[1], adapter).to(device))
    if methods == {SEAM}:
        return solver.Seam(y, _seam_weights(guidance, shape, adapter).to(device))
    rate = float(getattr(adapter, "rtc_ramp_rate", 6.0))
    overlap = [0 if g is None else len(g.leftover) for g in guidance]
    frozen = [0 if g is None else g.committed for g in guidance]
    return solver.RtcOverlap(y, overlap, frozen, rate)


def _committed(
    guidance: Sequence[Guidance | None], horizon: int, adapter: GuidableAdapter
) -> torch.Tensor:
    """bool [B, horizon]: the leading rows that are decided, no more than the training had."""
    most = int(getattr(adapter, "trained_delay", 0))
    rows = torch.tensor([0 if g is None else g.committed for g in guidance])
    if int(rows.max()) > most:
        raise PolicyError(
            f"{adapter.spec.checkpoint}: {RTC_TRAINED} with {int(rows.max())} committed rows; this "
            f"checkpoint was trained with at most {most} (rtc_training_max_delay)"
        )
    return torch.arange(horizon) < rows[:, None]


def _identity_weights(
    guidance: Sequence[Guidance | None], shape: tuple[int, ...], adapter: GuidableAdapter
) -> torch.Tensor:
    """W: 1 on committed rows, falling to 0 at horizon - execution_horizon or where the left-over
    ends. Where any column agrees, those that the robot does not have agree with zero, as LeRobot
    has it, if the model was trained to give zeros there."""
    horizon = shape[1]
    weights = torch.zeros(shape)
    for i, wish in enumerate(guidance):
        if wish is not None:
            rows = len(wish.leftover)
            end = max(wish.committed, min(horizon - wish.execution_horizon, rows))
            row = solver.prefix_weights(wish.committed, end, horizon)
            columns = _columns(wish, adapter)
            padding = columns.amax().expand(shape[2] - len(columns)) * adapter.zeros_behind
            weights[i] = row[:, None] * torch.cat((columns, padding))
    return weights


def _seam_weights(
    guidance: Sequence[Guidance | None], shape: tuple[int, ...], adapter: GuidableAdapter
) -> torch.Tensor:
    """1 on ``SEAM_SHARE`` of the horizon, falling to 0 where the left-over ends; 0 in the columns
    that the robot does not have. The paper's pull ends at once, behind the rows that are executed
    there; in a short chunk that end is executed and would be a seam of its own."""
    weights = torch.zeros(shape)
    for i, wish in enumerate(guidance):
        if wish is not None:
            full, end = round(SEAM_SHARE * shape[1]), len(wish.leftover)
            row = solver.prefix_weights(full, end, shape[1], "linear")
            weights[i, :, : adapter.spec.action_dim] = row[:, None] * _columns(wish, adapter)
    return weights


def _columns(wish: Guidance, adapter: GuidableAdapter) -> torch.Tensor:
    """float32 [action_dim]: 1 in the columns to agree in."""
    if wish.columns is None:
        return torch.ones(adapter.spec.action_dim)
    return torch.from_numpy(np.asarray(wish.columns, dtype=np.float32))
