# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Solvers: from noise to an action chunk by repeated evaluation of the model.

A solver owns the loop and nothing else; the model owns what it predicts. Guidance is elementwise
on x and the prediction, with tensors that stay in place, so that a captured loop can be replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch

from phyai_ros.engine.types import PolicyError

Predict = Callable[[torch.Tensor, int], torch.Tensor]
"""(x [B, horizon, dim], step index) -> the model's prediction, x's shape."""


Toward = Callable[[torch.Tensor], torch.Tensor]
"""x -> the velocity towards the actions (d x / d tau) at the step in hand."""


class Guide(Protocol):
    """What real-time chunking adds to a flow. tau is the flow's time: 0 noise, 1 actions.

    differentiates: whether ``evaluate`` needs gradients, so that nothing it touches may be made in
    inference mode. committed: bool [B, horizon], rows that are given as already decided to a model
    that was trained to take them so; None where the guide does not do that.
    """

    differentiates: bool = False
    committed: torch.Tensor | None = None

    def start(self, x: torch.Tensor) -> torch.Tensor:
        """The noise to start from."""
        return x

    def velocity(self, x: torch.Tensor, v: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        """The velocity towards the actions (d x / d tau), corrected."""
        return v

    def evaluate(self, toward: Toward, x: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        """The corrected velocity at x; by default elementwise in x and ``toward(x)``."""
        return self.velocity(x, toward(x), tau, steps)


Solver = Callable[[Predict, torch.Tensor, int, "Guide | None"], torch.Tensor]
"""(predict, noise, steps, guide) -> actions, of the noise's shape [B, horizon, dim] but where it
holds more than the start (``noise_schedule.Ddpm``)."""


def flow_forward(
    predict: Predict, x: torch.Tensor, steps: int, guide: Guide | None = None
) -> torch.Tensor:
    """Euler, t from 0 (noise) to 1 (actions); the model predicts actions - noise (GR00T)."""
    if guide is not None:
        x = guide.start(x)
    dt = 1.0 / steps
    for i in range(steps):
        if guide is None:
            v = predict(x, i)
        else:
            v = guide.evaluate(partial(_forward, predict, i), x, i / steps, steps)
        x = torch.add(x, v, alpha=dt)
    return x


def flow_backward(
    predict: Predict, x: torch.Tensor, steps: int, guide: Guide | None = None
) -> torch.Tensor:
    """Euler, t from 1 (noise) to 0 (actions); the model predicts noise - actions (pi0, SmolVLA)."""
    if guide is not None:
        x = guide.start(x)
    dt = -1.0 / steps
    for i in range(steps):
        if guide is None:
            v = predict(x, i)
        else:
            toward = partial(_reversed, predict, i)
            v = -guide.evaluate(toward, x, 1.0 - (1.0 + i * dt), steps)
        x = torch.add(x, v, alpha=dt)
    return x


def _forward(predict: Predict, step: int, x: torch.Tensor) -> torch.Tensor:
    return predict(x, step)


def _reversed(predict: Predict, step: int, x: torch.Tensor) -> torch.Tensor:
    return -predict(x, step)


def single_pass(
    predict: Predict, x: torch.Tensor, steps: int, guide: Guide | None = None
) -> torch.Tensor:
    """The model predicts the actions themselves (ACT)."""
    if guide is not None:
        raise PolicyError("a single-pass policy has no denoising loop to guide")
    return predict(x, 0)


SOLVERS: dict[str, Solver] = {
    "flow_forward": flow_forward,
    "flow_backward": flow_backward,
    "single_pass": single_pass,
}


def resolve(solver: str | Solver) -> Solver:
    """A name of ``SOLVERS``, or a solver itself (one with its own schedule, DDIM say)."""
    if callable(solver):
        return solver
    if solver not in SOLVERS:
        raise PolicyError(f"unknown solver {solver!r}; known: {', '.join(SOLVERS)}")
    return SOLVERS[solver]


def prefix_weights(start: int, end: int, total: int, schedule: str = "exp") -> torch.Tensor:
    """float32 [total]: how much each row of the left-over chunk counts (arXiv 2506.07339, eq. 5,
    LeRobot's form). 1 before ``start`` (rows that will be executed anyway), 0 from ``end``, between
    them falling: exp, linear; ones stays 1, zeros drops at once."""
    start = min(start, end, total)
    weights = torch.zeros(total)
    weights[: max(start, 0)] = 1.0
    if schedule == "zeros":
        return weights
    if schedule == "ones":
        weights[:end] = 1.0
        return weights
    if schedule not in ("linear", "exp"):
        raise PolicyError(f"unknown schedule {schedule!r}; known: exp, linear, ones, zeros")
    stop = min(end, total)
    if stop > start:
        ramp = torch.linspace(1, 0, stop - start + 2)[1:-1]
        if schedule == "exp":
            ramp = ramp * torch.expm1(ramp) / (math.e - 1)
        weights[start:stop] = ramp
    return weights


def rtc_weight(tau: float, limit: float) -> float:
    """min(limit, (tau^2 + (1 - tau)^2) / (tau (1 - tau))); limit at tau = 0."""
    if tau <= 0.0 or tau >= 1.0:
        return limit if tau <= 0.0 else 0.0
    return min(limit, (tau * tau + (1 - tau) ** 2) / (tau * (1 - tau)))


class RtcIdentity(Guide):
    """Real-time chunking with LeRobot's identity Jacobian: the velocity is pulled so that the
    denoised estimate agrees with the left-over chunk, v + w(tau) W (Y - (x + (1 - tau) v)).

    target: Y [B, horizon, dim], normalised. weights: W, broadcast to it; 0 in rows that Y lacks.
    limit: cap of w(tau); None = the number of steps, where one step replaces a row in full.
    """

    def __init__(self, target: torch.Tensor, weights: torch.Tensor, limit: float | None = None):
        self.target, self.weights, self.limit = target, weights, limit

    def velocity(self, x: torch.Tensor, v: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        weight = rtc_weight(tau, self.limit if self.limit is not None else float(steps))
        error = (self.target - torch.add(x, v, alpha=1.0 - tau)) * self.weights
        return torch.add(v, error, alpha=weight)


SEAM_STEPS = 10
"""Denoising steps for which the seam paper gives its strength."""


class Seam(Guide):
    """Seam guidance (arXiv 2607.04609): after each Euler step the leading rows are pulled towards
    what the left-over chunk would be at that flow time, x <- x + 2 strength tau (tau Y - x) with
    tau the time reached. Written as a velocity, so that the solver stays what it is.

    target: Y [B, horizon, dim], normalised. weights: broadcast to it, 1 on rows pulled in full.
    strength: of a step when there are ``SEAM_STEPS``, as in the paper. A step of other length pulls
    like so many of those: else a policy of four steps would feel less than half of it.
    """

    def __init__(self, target: torch.Tensor, weights: torch.Tensor, strength: float = 0.1):
        self.target, self.weights, self.strength = target, weights, strength

    def velocity(self, x: torch.Tensor, v: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        reached = tau + 1.0 / steps
        stepped = torch.add(x, v, alpha=1.0 / steps)
        pull = (reached * self.target - stepped) * self.weights
        share = 1.0 - (1.0 - 2.0 * self.strength * reached) ** (SEAM_STEPS / steps)
        return torch.add(v, pull, alpha=share * steps)


class RtcOverlap(Guide):
    """GR00T N1.7's own real-time chunking: the rows that overlap the previous chunk start from it
    instead of from noise; frozen rows do not move, the rest of the overlap moves with a strength
    that rises as 1 - exp(-rate t).

    target: [B, horizon, dim] normalised previous actions from the new chunk's row 0 on (padding
    beyond the overlap is not read). overlap, frozen: rows of each request.
    """

    def __init__(
        self, target: torch.Tensor, overlap: Sequence[int], frozen: Sequence[int], rate: float
    ):
        horizon, device = target.shape[1], target.device
        rows = torch.arange(horizon, device=device)
        self.target = target
        self.replaced = (rows < torch.tensor(list(overlap), device=device)[:, None])[..., None]
        strengths = [
            _overlap_strength(horizon, o, f, rate) for o, f in zip(overlap, frozen, strict=True)
        ]
        self.strength = torch.stack(strengths).to(device)[..., None]

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(self.replaced, self.target, x)

    def velocity(self, x: torch.Tensor, v: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        return v * self.strength


def _overlap_strength(horizon: int, overlap: int, frozen: int, rate: float) -> torch.Tensor:
    """float32 [horizon]: 0 on frozen rows, rising over the rest of the overlap, then 1."""
    strength = torch.ones(horizon)
    t = torch.linspace(0.0, 1.0, overlap - frozen + 2)
    ramp = 1 - torch.exp(-rate * t)
    ramp = ramp / ramp[-1].clamp_min(1e-8)
    strength[:frozen] = 0.0
    strength[frozen:overlap] = ramp[1:-1]
    return strength
