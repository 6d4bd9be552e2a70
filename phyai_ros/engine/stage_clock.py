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
        self._stream: Any = None
        self._names: list[str] = []
        self._marks: list[Any] = []
        self.start()

    def start(self) -> None:
        """A new request."""
        self._names.clear()
        self._begin = time.perf_counter()
        self._stream = None

    def mark(self, stage: str) -> None:
        """The stage is over. Marks are set on the stream that is current at the first one: asking
        for it takes longer than setting them."""
        at = len(self._names)
        self._names.append(stage)
        if at == len(self._marks):
            self._marks.append(torch.cuda.Event(enable_timing=True) if self._cuda else 0.0)
        if self._cuda:
            if self._stream is None:
                self._stream = torch.cuda.current_stream()
            self._marks[at].record(self._stream)
        else:
            self._marks[at] = time.perf_counter()

    def restart(self) -> None:
        """Forget all marks."""
        self._names.clear()

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds since the mark before it; waits for the last mark. The first stage has
        all of the time until now that is in no other."""
        marks = self._marks[: len(self._names)]
        spans = self._device_spans(marks) if self._cuda else [b - a for a, b in pairwise(marks)]
        first = time.perf_counter() - self._begin - sum(spans)
        return dict(zip(self._names, [first, *spans], strict=True))

    @staticmethod
    def _device_spans(marks: list[Any]) -> list[float]:
        """Those that are over early are asked for while the device does the rest; the last two
        marks stand close together, and one wait serves both."""
        spans = []
        for a, b in pairwise(marks[:-2]):
            b.synchronize()
            spans.append(a.elapsed_time(b) / 1e3)
        marks[-1].synchronize()
        return spans + [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks[len(spans) :])]
