# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A CUDA graph's capture, begun and ended in one way everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, pool: Any = None) -> Iterator[None]:
    """Within, what the current stream is given goes into ``graph`` and does not run. pool: memory
    shared with other graphs, of ``torch.cuda.graph_pool_handle()``; None for the graph's own.

    What other threads do meanwhile, allocate memory say, is no concern of the capture's. Raises
    what the work within raised; RuntimeError where it raised nothing, but cannot be captured.
    """
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        yield
    except BaseException:
        # Ended all the same: until then the stream, and the allocator's pool, are taken. That a
        # capture which was spoilt does not end well says nothing that the first error does not.
        with suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
