# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The small pi0.5, trained to go on from rows that are decided already (arXiv 2512.05964)."""

from __future__ import annotations

import torch
from torch import Tensor

from phyai_ros.engine.models.paligemma.flow import Prefix
from phyai_ros.engine.rtc import RtcTrained
from phyai_ros.engine.solver import flow_backward
from tools.train.batch import Batch
from tools.train.pi05 import Pi05Trainee

FREE = 0.2
"""Share of the draws without any decided row."""


class Pi05RtcTrainee(Pi05Trainee):
    """Decided rows enter as clean actions with the flow time of clean actions, zero; the loss is of
    the other rows. How many are decided is drawn for every noise."""

    def flow(self, prefix: Prefix, chunk: Tensor) -> Tensor:
        """chunk [b, delays, horizon, n]: entry d goes on from d decided rows."""
        chunks = self._repeat(chunk)
        count, delays, horizon, _ = chunks.shape
        device = chunks.device
        decided = torch.randint(1, delays, (count,), device=device)
        decided = decided * (torch.rand(count, device=device) >= FREE)
        target = chunks[torch.arange(count, device=device), decided]
        committed = torch.arange(horizon, device=device) < decided[:, None]
        noise = torch.randn_like(target)
        time = self.flow_time(target)
        x = time[:, :, None] * noise + (1 - time[:, :, None]) * target
        x = torch.where(committed[..., None], target, x)
        v = self.policy.velocity(x, self.many(prefix), self.conditions(time, committed))
        error = ((v - (noise - target)) ** 2).mean(-1)
        return (error * ~committed).sum() / (~committed).sum()

    def conditions(self, time: Tensor, committed: Tensor) -> Tensor:
        """time [b, 1] of the free rows, committed bool [b, horizon] -> every row's own."""
        clean = self.policy.condition(time.new_zeros(1, 1))
        return torch.where(committed[..., None, None], clean, self.policy.condition(time))

    @torch.no_grad()
    def sample(self, batch: Batch, noise: Tensor) -> Tensor:
        """[b, delays, horizon, n] as the engine's solver makes them of each number of rows."""
        policy = self.policy
        steps = policy.config.denoising_steps
        _, prefix = self.encode(batch.images.float() / 127.5 - 1, batch)
        constants = policy.constants(steps)
        found = []
        for d in range(noise.shape[1]):
            committed = torch.arange(noise.shape[2], device=noise.device) < d
            committed = committed.expand(len(noise), -1)
            one = policy.commit(prefix, committed)

            def predict(x: Tensor, i: int, one: Prefix = one) -> Tensor:
                return policy.predict(x, i, one, constants)

            guide = RtcTrained(batch.chunk[:, d], committed)
            found.append(flow_backward(predict, noise[:, d], steps, guide))
        return torch.stack(found, dim=1)
