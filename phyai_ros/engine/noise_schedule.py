# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""DDIM and DDPM: solvers of a discrete noise schedule, for a network that predicts the noise or the
clean sample. Formulas: arXiv 2006.11239 (DDPM, eq. 7), 2010.02502 (DDIM, eq. 12 with eta 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from phyai_ros.engine.solver import Guide, Predict
from phyai_ros.engine.types import PolicyError

BETA_SCHEDULES = ("linear", "scaled_linear", "sigmoid", "squaredcos_cap_v2")
PREDICTIONS = ("epsilon", "sample")


@dataclass(frozen=True)
class NoiseSchedule:
    """The training-time noise schedule and how inference strides over it.

    train_steps: steps of the training schedule. steps: steps of inference, evenly spaced from 0
    ("leading" spacing, no offset). clip: bound of the predicted clean sample, None for none.
    """

    train_steps: int
    steps: int
    beta_schedule: str = "squaredcos_cap_v2"
    beta_start: float = 1e-4
    beta_end: float = 0.02
    prediction: str = "epsilon"
    clip: float | None = 1.0

    def __post_init__(self) -> None:
        if self.beta_schedule not in BETA_SCHEDULES:
            raise PolicyError(
                f"beta_schedule is {self.beta_schedule!r}; known: {', '.join(BETA_SCHEDULES)}"
            )
        if self.prediction not in PREDICTIONS:
            raise PolicyError(
                f"prediction_type is {self.prediction!r}; known: {', '.join(PREDICTIONS)}"
            )
        if not 1 <= self.steps <= self.train_steps:
            raise PolicyError(
                f"num_inference_steps is {self.steps}; the schedule was trained with "
                f"{self.train_steps}, so 1..{self.train_steps} are possible"
            )

    @property
    def stride(self) -> int:
        return self.train_steps // self.steps

    @cached_property
    def timesteps(self) -> tuple[int, ...]:
        """Training timesteps in the order of inference, falling to 0."""
        return tuple(i * self.stride for i in reversed(range(self.steps)))

    @cached_property
    def signal(self) -> torch.Tensor:
        """float32 [train_steps]: cumulative product of 1 - beta."""
        n = self.train_steps
        if self.beta_schedule == "squaredcos_cap_v2":
            level = [math.cos((i / n + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(n + 1)]
            betas = torch.tensor(
                [min(1 - level[i + 1] / level[i], 0.999) for i in range(n)], dtype=torch.float32
            )
        elif self.beta_schedule == "linear":
            betas = torch.linspace(self.beta_start, self.beta_end, n)
        elif self.beta_schedule == "scaled_linear":
            betas = torch.linspace(self.beta_start**0.5, self.beta_end**0.5, n) ** 2
        else:
            betas = torch.sigmoid(torch.linspace(-6, 6, n))
            betas = betas * (self.beta_end - self.beta_start) + self.beta_start
        return torch.cumprod(1.0 - betas, dim=0)

    def levels(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cumulative signal at inference step i and after it (1 after the last); float32 scalars,
        because the references compute their coefficients in float32."""
        t = self.timesteps[i]
        after = t - self.stride
        return self.signal[t], self.signal[after] if after >= 0 else torch.tensor(1.0)

    def clean(self, x: torch.Tensor, output: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        """The network's output for x, both [B, horizon, dim] -> the clean sample it stands for,
        clipped. level: [], the share of the signal's variance in x."""
        if self.prediction == "epsilon":
            noise_scale, signal_scale = float((1 - level) ** 0.5), float(level**0.5)
            output = (x - noise_scale * output) / signal_scale
        return output if self.clip is None else output.clamp(-self.clip, self.clip)

    def noise(self, x: torch.Tensor, output: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        """As ``clean``: the noise it stands for."""
        if self.prediction == "epsilon":
            return output
        return (x - float(level**0.5) * output) / float((1 - level) ** 0.5)


def _check(guide: Guide | None, steps: int, schedule: NoiseSchedule) -> None:
    if guide is not None:
        raise PolicyError("guidance needs a flow policy; this one denoises a discrete schedule")
    if steps != schedule.steps:
        raise PolicyError(f"asked for {steps} steps, the schedule was made for {schedule.steps}")


@dataclass(frozen=True)
class Ddim:
    """Deterministic: ``noise`` [B, horizon, dim] is the start, and all the randomness there is."""

    schedule: NoiseSchedule

    def __call__(
        self, predict: Predict, noise: torch.Tensor, steps: int, guide: Guide | None = None
    ) -> torch.Tensor:
        _check(guide, steps, self.schedule)
        x = noise
        for i in range(steps):
            output = predict(x, i)
            level, after = self.schedule.levels(i)
            clean = self.schedule.clean(x, output, level)
            direction = float((1 - after) ** 0.5) * self.schedule.noise(x, output, level)
            x = float(after**0.5) * clean + direction
        return x


@dataclass(frozen=True)
class Ddpm:
    """Ancestral sampling with the small fixed variance. ``noise`` [B, steps, horizon, dim] holds
    every draw, so that a request is reproducible: row 0 is the start, row i is added after step
    i - 1 (nothing is added after the last step)."""

    schedule: NoiseSchedule

    def __call__(
        self, predict: Predict, noise: torch.Tensor, steps: int, guide: Guide | None = None
    ) -> torch.Tensor:
        _check(guide, steps, self.schedule)
        x = noise[:, 0]
        for i in range(steps):
            output = predict(x, i)
            level, after = self.schedule.levels(i)
            clean = self.schedule.clean(x, output, level)
            alpha = level / after
            clean_scale = after**0.5 * (1 - alpha) / (1 - level)
            x_scale = alpha**0.5 * (1 - after) / (1 - level)
            x = float(clean_scale) * clean + float(x_scale) * x
            if i + 1 < steps:
                variance = ((1 - after) / (1 - level) * (1 - alpha)).clamp(min=1e-20)
                x = x + float(variance**0.5) * noise[:, i + 1]
        return x
