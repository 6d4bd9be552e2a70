# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Real-time chunking that needs more of the model than its prediction: its gradient, or a training
that knew of it. The elementwise forms are in ``solver.py``."""

from __future__ import annotations

import torch

from phyai_ros.engine.solver import Guide, Toward, rtc_weight


class RtcVjp(Guide):
    """Real-time chunking as published (arXiv 2506.07339, eq. 2-4): the error of the denoised
    estimate is pulled back through the model, v + w(tau) (W (Y - x1))^T d x1 / d x with
    x1 = x + (1 - tau) v(x). Costs a backward pass a step.

    target: Y [B, horizon, dim], normalised. weights: W, broadcast to it; 0 in rows that Y lacks.
    limit: cap of w(tau); None = the number of steps.
    """

    differentiates = True

    def __init__(self, target: torch.Tensor, weights: torch.Tensor, limit: float | None = None):
        self.target, self.weights, self.limit = target, weights, limit

    def evaluate(self, toward: Toward, x: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            v = toward(x)
            estimate = x + (1.0 - tau) * v
            error = ((self.target - estimate) * self.weights).detach()
            (correction,) = torch.autograd.grad(estimate, x, error)
        weight = rtc_weight(tau, self.limit if self.limit is not None else float(steps))
        return torch.add(v.detach(), correction, alpha=weight)


class RtcTrained(Guide):
    """Training-time real-time chunking (arXiv 2512.05964): committed rows enter as clean actions
    with the flow time of clean actions, and do not move. For models trained that way.

    target: [B, horizon, dim], normalised. committed: bool [B, horizon], its leading rows.
    """

    committed: torch.Tensor

    def __init__(self, target: torch.Tensor, committed: torch.Tensor):
        self.target, self.committed = target, committed

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(self.committed[..., None], self.target.to(x.dtype), x)

    def velocity(self, x: torch.Tensor, v: torch.Tensor, tau: float, steps: int) -> torch.Tensor:
        return v.masked_fill(self.committed[..., None], 0.0)
