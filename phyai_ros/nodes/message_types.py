# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A message's Python class from its type's name, and the other way round."""

from __future__ import annotations

import importlib
import re
from typing import Any

_NAME = re.compile(r"([a-z][a-z0-9_]*)/msg/([A-Z][A-Za-z0-9]*)")


def type_name(kind: Any) -> str:
    """A message's class -> ``package/msg/Name``, as the ROS graph lists it."""
    return f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"


def message_class(type_: str) -> Any:
    """``package/msg/Name`` -> its class. Raises ValueError when this machine does not have it."""
    match = _NAME.fullmatch(type_)
    if match is None:
        raise ValueError(f"{type_!r} is no message type: expected package/msg/Name")
    package, name = match.groups()
    try:
        return getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError):
        raise ValueError(
            f"{type_} is not installed here (ROS package {package.replace('_', '-')})"
        ) from None
