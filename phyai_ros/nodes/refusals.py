# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What messages of one topic were refused for: counted, told in diagnostics, logged."""

from __future__ import annotations

import time

from phyai_ros.control.words import shortened
from phyai_ros.nodes.diagnostics import EdgeLog, Reasons
from phyai_ros.nodes.lingering import Lingering

LOG_PERIOD = 1.0
"""Seconds between two lines: a bad publisher beside a good one begins and ends the trouble at every
message."""


class Refusals:
    """topic: the key of its lines in ``log``. trouble: the newest refusal, over when a message was
    good. counts: by kind."""

    def __init__(self, log: EdgeLog, topic: str) -> None:
        self.counts = Reasons()
        self.trouble = Lingering()
        self._log, self._topic = log, topic
        self._next_line = 0.0

    def refuse(self, kind: str, text: str, *, error: bool = False) -> None:
        """error: the text is a traceback of this package's own."""
        self.counts.add(kind)
        text = text if error else shortened(text)
        self.trouble.set(text)
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + LOG_PERIOD
            self._log.set(self._topic, text, error=error)

    def good(self) -> None:
        """A message was used."""
        self.trouble.set(None)
        self._log.set(self._topic, None)
