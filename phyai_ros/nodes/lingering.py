# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A trouble that may be over before anybody looks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

LINGERS = 1.0
"""Seconds for which a trouble is still told after its end: diagnostics come once a second."""


class Lingering:
    """The newest trouble, told while it lasts, for LINGERS s after its end, and in any case once.

    Who looks a few times a second sees only what is wrong at that moment: every second message may
    be refused and no look fall between a bad one and the good one after it. Any thread.
    clock: steady seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._text: str | None = None
        self._over = math.inf
        self._told = True

    def set(self, text: str | None) -> None:
        """What is wrong from now on, for people; None: nothing is."""
        with self._lock:
            if text is not None:
                if text != self._text or self._over != math.inf:
                    self._told = False
                self._text, self._over = text, math.inf
            elif self._over == math.inf:
                self._over = self._clock()

    @property
    def now(self) -> str | None:
        """What is wrong at this moment."""
        with self._lock:
            return self._text if self._over == math.inf else None

    @property
    def lately(self) -> str | None:
        """What is or was wrong; whoever passes it on says so by ``told``."""
        with self._lock:
            gone = self._told and self._clock() - self._over >= LINGERS
            return None if gone else self._text

    def told(self, text: str | None) -> None:
        """``text``, which ``lately`` gave, has reached people."""
        with self._lock:
            self._told = self._told or text == self._text
