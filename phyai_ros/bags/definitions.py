# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Message definitions for bags: ROS's own, this package's, and those a bag brings itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from rosbags.interfaces import MessageDefinitionFormat
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

PACKAGE = "phyai_ros"


def message_folders() -> list[Path]:
    """Where this package's ``.msg`` files may lie: the source tree, then what colcon installed,
    then what pip did."""
    module = Path(__file__)
    prefixes = [Path(p) for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    prefixes += [*module.parents[2:7], Path(sys.prefix)]
    return [
        module.parents[2] / "msg",
        module.resolve().parents[2] / "msg",
        *(prefix / "share" / PACKAGE / "msg" for prefix in prefixes),
    ]


@cache
def known() -> dict[str, Any]:
    """Field definitions by type name: those of ROS 2, and this package's where they are found."""
    types: dict[str, Any] = dict(get_typestore(Stores.ROS2_KILTED).fielddefs)
    for folder in message_folders():
        files = sorted(folder.glob("*.msg")) if folder.is_dir() else []
        for file in files:
            types.update(get_types_from_msg(file.read_text("utf-8"), f"{PACKAGE}/msg/{file.stem}"))
        if files:
            break
    return types


@cache
def own() -> Any:
    """The typestore of ``known``, for who writes; one a process, for each is a module of code."""
    return _store(known())


def store(connections: Iterable[Any]) -> tuple[Any, dict[str, str]]:
    """A rosbags typestore, and by type why a definition could not be read: a bag of everything also
    holds what nobody here asks for (service events come with the service's text, which is no
    message's). connections: of a bag; the definitions it brings win, as its bytes were written by
    them."""
    types = dict(known())
    unread: dict[str, str] = {}
    for connection in connections:
        definition = connection.msgdef
        try:
            if definition.format == MessageDefinitionFormat.MSG:
                brought = get_types_from_msg(definition.data, connection.msgtype)
            elif definition.format == MessageDefinitionFormat.IDL:
                brought = _from_idl(definition.data)
            else:
                continue
            _store(brought)
        except Exception as error:  # a definition of somebody's may fail anywhere in the parser
            reason = " ".join(str(error).split())[:200]
            unread[connection.msgtype] = f"{type(error).__name__}: {reason}"
            continue
        types.update(brought)
    return _store(types), unread


def _store(types: dict[str, Any]) -> Any:
    made = get_typestore(Stores.EMPTY)
    made.register(types)
    return made


def _from_idl(text: str) -> dict[str, Any]:
    """rosbag2 joins the IDL of a type and of those it uses: a line of 80 ``=``, ``IDL: name``."""
    types: dict[str, Any] = {}
    for part in text.split("=" * 80 + "\n"):
        body = part.partition("\n")[2] if part.startswith("IDL: ") else part
        if body.strip():
            types.update(get_types_from_idl(body))
    return types
