# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Warnings about a checkpoint, each said once."""

from __future__ import annotations

import logging

_MOST = 1024
_said: set[str] = set()


def once(log: logging.Logger, text: str) -> None:
    """Warn, but for a text that was said in this process already: a checkpoint may be built several
    times (``phyai-ros info`` looks at it in every precision), and warnings that repeat are skipped
    by whoever reads them."""
    if text not in _said:
        if len(_said) >= _MOST:
            _said.clear()
        _said.add(text)
        log.warning("%s", text)
