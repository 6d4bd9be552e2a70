# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Seconds by stage of a request."""

from __future__ import annotations

import time
from typing import Any

import torch


class StageClock:
    """Wall time between marks: on the host, or by events on a CUDA stream so that marking does
    not make the host wait."""

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self._marks: list[tuple[str, Any]] = []
        self.mark("start")

    def mark(self, stage: str) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append((stage, event))
        else:
            self._marks.append((stage, time.perf_counter()))

    def restart(self) -> None:
        """Forget all marks but the start."""
        del self._marks[1:]

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds since the mark before it. Waits for the last mark."""
        if self._cuda:
            self._marks[-1][1].synchronize()
            return {
                stage: before.elapsed_time(after) / 1e3
                for (_, before), (stage, after) in zip(self._marks, self._marks[1:], strict=False)
            }
        return {
            stage: after - before
            for (_, before), (stage, after) in zip(self._marks, self._marks[1:], strict=False)
        }
