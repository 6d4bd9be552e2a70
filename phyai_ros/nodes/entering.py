# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Into ROS, or a line for people that says why not. Imports no ROS before it is entered."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rclpy.context import Context

MOST_DOMAIN = 232
"""DDS's ports of a domain beyond are above 65535; Fast DDS then ends the process."""
_DOMAIN = "ROS_DOMAIN_ID"
_SECURE, _KEYSTORE = "ROS_SECURITY_ENABLE", "ROS_SECURITY_KEYSTORE"
_SOURCE = re.compile(r", at /\S+:\d+")
"""Where in its sources ROS met an error."""


class EnterError(RuntimeError):
    """ROS refuses what this process's environment says; the text is for people, a line."""


def enter(
    context: Context | None = None,
    arguments: Sequence[str] | None = None,
    *,
    signals: bool = False,
) -> None:
    """``rclpy.init``. arguments: None for the process's own words. signals: whether SIGINT and
    SIGTERM end the context. Raises EnterError."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    ros = rclpy._rclpy_pybind11
    _check_domain(rclpy.get_rmw_implementation_identifier())
    try:
        rclpy.init(
            context=context,
            args=None if arguments is None else list(arguments),
            signal_handler_options=SignalHandlerOptions.ALL if signals else SignalHandlerOptions.NO,
        )
    except (ros.RCLError, ros.UnknownROSArgsError) as error:
        with suppress(Exception):  # of a context that came half the way
            rclpy.try_shutdown(context=context)
        raise EnterError(why(error)) from None


def why(error: Exception) -> str:
    """ROS's words about its environment, and what to set."""
    text = _SOURCE.sub("", str(error)).strip().replace("\n", " ")
    if _DOMAIN in text:
        return _domain(os.environ.get(_DOMAIN, ""))
    if "error not set" in text and _SECURE in os.environ and not os.environ.get(_KEYSTORE):
        return (
            f"{_SECURE} is {os.environ[_SECURE]!r} and {_KEYSTORE} is not set: set it, or neither"
        )
    if "logging" not in text:
        return f"ROS 2 does not start here: {text}"
    if not (os.environ.get("ROS_LOG_DIR") or os.environ.get("ROS_HOME") or os.environ.get("HOME")):
        return "HOME is not set, below which ROS 2 writes its logs: set it, or ROS_LOG_DIR"
    return f"ROS 2 does not start here: {text}: set ROS_LOG_DIR to a folder that can be written to"


def _check_domain(middleware: str) -> None:
    """Before DDS ends the process."""
    text = os.environ.get(_DOMAIN, "")
    try:
        number = int(text, 0)
    except ValueError:  # rcl's to judge
        return
    if number < 0 or (number > MOST_DOMAIN and "zenoh" not in middleware):
        raise EnterError(_domain(text))


def _domain(found: str) -> str:
    return f"{_DOMAIN}: expected a whole number from 0 to {MOST_DOMAIN}, found {found!r}: set it so"
