# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Files that a command writes behind its outcome: one that cannot be written takes nothing away."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from phyai_ros.tools import console


def write(path: Path, work: Callable[[Path], object], option: str, *, asked: bool = True) -> bool:
    """Whether ``work`` wrote ``path``, its folder made where there was none; else people are told
    why not, and that ``option`` puts it elsewhere. asked: whether they named the path; one that
    they did not is a warning, which leaves the exit status to the outcome."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work(path)
    except OSError as error:
        text = f"{os.path.abspath(path)} not written: {why(error)}; {option} puts it elsewhere"
        if asked:
            console.fail(text)
        else:
            console.say("warning", text)
        return False
    return True


def why(error: OSError) -> str:
    """Of a path that cannot be made or written."""
    a_file = isinstance(error, (FileExistsError, NotADirectoryError))
    return "it is, or lies in, a file" if a_file else error.strerror or str(error)
