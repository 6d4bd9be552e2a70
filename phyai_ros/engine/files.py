# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Files of a checkpoint, which may come from anybody: only its own, and none without an end."""

from __future__ import annotations

import json
import operator
import os
from pathlib import Path
from typing import Any

from phyai_ros.engine.types import PolicyError

LARGEST_JSON = 64 << 20
"""Bytes. The index of the largest published policy has 0.1 MB, statistics have some KB."""
_LARGEST_HEADER = 100_000_000
"""Bytes: safetensors' own limit."""
_LFS = b"version https://git-lfs"
_LEVELS, _MOST_FOLDERS, _MOST_SHOWN = 3, 200, 4
LONGEST_NAME = 255
"""Bytes of a file's name, as every file system here has it."""


def is_own_file(name: str) -> bool:
    """Whether ``name``, which a checkpoint's file gives for another, is the plain name of one
    beside it."""
    short = len(name.encode(errors="replace")) <= LONGEST_NAME
    return short and name not in ("", ".", "..") and not any(mark in name for mark in "/\\\0")


def is_there(path: Path) -> bool:
    """Whether this file, or what it links to, is there. Raises PolicyError where a link leads to
    nothing, or the name is something else's: what is absent has defaults, and this is not absent.
    """
    if os.path.isfile(path):
        return True
    if os.path.exists(path):
        found = "a directory" if os.path.isdir(path) else "a device, a pipe or a socket"
        raise PolicyError(f"{path}: expected a file, found {found}")
    if os.path.islink(path):
        raise PolicyError(
            f"{path}: expected a file, found a link to {os.readlink(path)}, which is not there; "
            "copy what it led to (of a Hugging Face cache, blobs beside snapshots), or download it "
            "again"
        )
    return False


def check_inside(path: Path, root: Path | None = None) -> None:
    """Raise PolicyError when a link leads a checkpoint's file out of its directory. The hub's cache
    is made of links into the ``blobs`` of the same repository; those stay. root: the directory,
    None: the one that the file lies in."""
    real, folder = path.resolve(), (root or path.parent).resolve()
    homes = [folder]
    if folder.parent.name == "snapshots":
        homes.append(folder.parent.parent / "blobs")
    if not any(real.is_relative_to(home) for home in homes):
        raise PolicyError(
            f"{path}: expected a file of this directory, found a link to {real}; copy it here, or "
            "give the directory that it lies in"
        )


def checkpoints_below(root: Path) -> list[Path]:
    """The first directories with a config.json and weights below ``root``, newest last in the order
    of their names: a training run keeps its checkpoints some levels down (LeRobot:
    checkpoints/*/pretrained_model, Isaac-GR00T: checkpoint-*)."""
    found, level = list[Path](), [root]
    for _ in range(_LEVELS):
        level = sorted(d for folder in level for d in _folders(folder))[:_MOST_FOLDERS]
        # Not Path.is_file, which raises where a folder may not be entered.
        found += [d for d in level if os.path.isfile(d / "config.json") and _has_weights(d)]
    return found[-_MOST_SHOWN:]


def unreadable(path: Path, error: Exception) -> PolicyError:
    """What is said of a safetensors file that reading failed of with ``error``: often it was cloned
    without its content."""
    try:
        with path.open("rb") as file:
            pointer = file.read(len(_LFS)) == _LFS
    except OSError:
        pointer = False
    if pointer:
        return PolicyError(
            f"{path}: a Git LFS pointer, not the file itself: fetch it with git lfs pull"
        )
    found = _cut(path)
    if found:
        return PolicyError(
            f"{path}: not readable as safetensors: {found}: copy or download it again"
        )
    return PolicyError(f"{path}: not readable as safetensors: {error}")


def _cut(path: Path) -> str:
    """Of a safetensors file whose size is not what its header says: both; of any other, nothing."""
    try:
        found = path.stat().st_size
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, _LARGEST_HEADER))
    except OSError:
        return ""
    if found < 8:
        return f"expected a header and weights, found {found} bytes"
    if not header.startswith(b"{") or size > _LARGEST_HEADER:
        return ""
    if found < 8 + size:
        return f"expected {8 + size} bytes of header alone, found {found}"
    try:
        entries = json.loads(header)
        ends = [v["data_offsets"][1] for k, v in entries.items() if k != "__metadata__"]
        expected = 8 + size + max(map(operator.index, ends), default=0)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return ""
    return "" if expected == found else f"expected {expected} bytes, found {found}"


def _folders(folder: Path) -> list[Path]:
    try:
        return [d for d in folder.iterdir() if d.is_dir()]
    except OSError:
        return []


def _has_weights(folder: Path) -> bool:
    return next(folder.glob("*.safetensors"), None) is not None


def read_json(path: Path, root: Path | None = None) -> dict[str, Any]:
    """A JSON object. Raises PolicyError when it is none, and when the file is absent, too large or
    a link that leads out of its directory. root: as in ``check_inside``."""
    if not is_there(path):
        there = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        shown = ", ".join(there[:40]) + (f" and {len(there) - 40} more" if len(there) > 40 else "")
        raise PolicyError(f"{path}: missing: no such file; {path.parent} holds {shown or 'none'}")
    check_inside(path, root)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_JSON + 1)
        if len(content) > LARGEST_JSON:
            raise PolicyError(f"{path}: expected at most {LARGEST_JSON >> 20} MB of JSON")
        value = json.loads(content.decode("utf-8"))
    except PolicyError:
        raise
    except (OSError, ValueError) as error:  # JSON and UTF-8 have subclasses of ValueError
        raise PolicyError(f"{path}: not valid JSON ({error})") from None
    except RecursionError:
        raise PolicyError(f"{path}: not valid JSON here: nested too deeply") from None
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: expected an object, found {type(value).__name__}")
    return value
