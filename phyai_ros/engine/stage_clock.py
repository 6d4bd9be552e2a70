# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Seconds by stage of a request."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch


class StageClock:
    """Wall time between marks: on the host, or by events on a CUDA stream so that marking does
    not make the host wait. Its events serve one request after another."""

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self._names: list[str] = []
        self._marks: list[Any] = []
        self.start()

    def start(self) -> None:
        """A new request."""
        self._names.clear()
        self.mark("start")

    def mark(self, stage: str) -> None:
        at = len(self._names)
        self._names.append(stage)
        if at == len(self._marks):
            self._marks.append(torch.cuda.Event(enable_timing=True) if self._cuda else 0.0)
        if self._cuda:
            self._marks[at].record()
        else:
            self._marks[at] = time.perf_counter()

    def restart(self) -> None:
        """Forget all marks but the start."""
        del self._names[1:]

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds since the mark before it. Waits for the last mark."""
        marks = self._marks[: len(self._names)]
        if self._cuda:
            marks[-1].synchronize()
            spans = [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]
        else:
            spans = [b - a for a, b in pairwise(marks)]
        return dict(zip(self._names[1:], spans, strict=True))
