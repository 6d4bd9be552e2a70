# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
import rclpy
from rclpy.context import Context


@pytest.fixture
def ros() -> Iterator[Context]:
    """A context of its own in a domain of its own: no test hears another."""
    context = Context()
    rclpy.init(context=context, args=[], domain_id=61)
    yield context
    context.try_shutdown()
