# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Who runs beside a test hears nothing of it: every file has ROS domains of its own."""

import inspect
import re
from collections import Counter
from pathlib import Path

from phyai_ros.tools import soak

TESTS = Path(__file__).resolve().parents[1]
DOMAIN = re.compile(r'DOMAIN(?:_ID)? = "?(\d+)"?(.*and the next)?')


def domains() -> Counter[int]:
    found: Counter[int] = Counter()
    for file in TESTS.rglob("*.py"):
        numbers: set[int] = set()
        for number, more in DOMAIN.findall(file.read_text(encoding="utf-8")):
            numbers |= {int(number), int(number) + bool(more)}
        found.update(numbers)
    return found


def test_no_two_files_share_a_domain():
    assert {domain: files for domain, files in domains().items() if files > 1} == {}


def test_the_soak_shares_its_domain_with_no_test():
    """A test beside it was discovered by all of its processes, whose memory grew by 1 to 2 %."""
    default = re.search(r'"--domain", type=int, default=(\d+)', inspect.getsource(soak))
    assert default is not None
    assert int(default[1]) not in domains()
