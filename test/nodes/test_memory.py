# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Freed memory is reused: counted in page faults, not in time."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from phyai_ros.nodes.memory import keep_freed_memory
if {keep}:
    assert keep_freed_memory()
image = bytearray(921_600)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    first, second = bytes(image), bytes(image)
    del first, second
before = faults()
for _ in range(100):
    first, second = bytes(image), bytes(image)
    del first, second
print(faults() - before)
"""


def page_faults(keep: bool) -> int:
    program = [sys.executable, "-c", PROGRAM.format(keep=keep)]
    return int(subprocess.run(program, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own setting")
def test_images_reuse_the_memory_of_images():
    usual, kept = page_faults(False), page_faults(True)
    assert kept < 100  # less than one a pair of images
    assert usual > 10 * kept
