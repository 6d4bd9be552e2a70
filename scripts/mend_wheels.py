# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rewrite two paths of the machine that built the ROS 2 wheels to this environment's own.

The wheels' CMake exports name an interpreter's include folder and a numpy include folder under
/opt/python; as long as those do not exist, a package with messages fails in CMake's generate step
("includes non-existent path"). Run with the environment's Python; running it again changes nothing.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import numpy

# A build interpreter's tag is cp310-cp310, cp313-cp313 and so on, a trailing t being free-threaded.
_TAG = r"/opt/python/cp\d+-cp\d+t?"
_PYTHON_INCLUDE = re.compile(_TAG + r"/include/python3\.\d+t?")
_NUMPY_INCLUDE = re.compile(_TAG + r"/lib/python3\.\d+t?/site-packages/numpy/_?core/include")


def mend_text(text: str, python_include: str, numpy_include: str) -> str:
    """Both paths replaced wherever they occur."""
    text = _PYTHON_INCLUDE.sub(lambda _: python_include, text)
    return _NUMPY_INCLUDE.sub(lambda _: numpy_include, text)


def mend(prefix: Path, python_include: str, numpy_include: str) -> list[Path]:
    """Mend every ``share/*/cmake/*.cmake`` below ``prefix``; the files that changed.

    Raises FileNotFoundError where one of the two include folders is itself absent.
    """
    for folder, holds in ((python_include, "Python.h"), (numpy_include, "numpy/arrayobject.h")):
        if not (Path(folder) / holds).is_file():
            raise FileNotFoundError(f"{Path(folder) / holds}: the messages cannot be compiled")
    changed = []
    for file in sorted(prefix.glob("share/*/cmake/*.cmake")):
        before = file.read_text()
        after = mend_text(before, python_include, numpy_include)
        if after != before:
            file.write_text(after)
            changed.append(file)
    return changed


def main() -> int:
    changed = mend(Path(sys.prefix), sysconfig.get_paths()["include"], numpy.get_include())
    print(f"mended {len(changed)} CMake files of the ROS 2 wheels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
