# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Lets a source tree use its generated messages: ``import phyai_ros.msg`` with no install step.

rosidl puts ``phyai_ros/msg`` into the colcon install folder, while the edited sources stay in the
repository, and one package cannot lie in two folders as long as its ``__init__.py`` is empty (it
has to be: rosidl writes one too). So a ``.pth`` file in the development environment calls
``install``, which answers only for the generated names; everything else is the source tree's.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder


class GeneratedMessages:
    """Finds ``phyai_ros.msg`` and the C type support modules beside it in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "phyai_ros.msg" or name.startswith("phyai_ros.phyai_ros_s__"):
            return PathFinder.find_spec(name, [self.folder])
        return None


def install(folder: str) -> None:
    """Put the finder last, so that an installed package with its own messages wins."""
    finder = GeneratedMessages(folder)
    sys.meta_path.append(finder)
