# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Time decides no test: on a shared machine a first import alone can take a second."""

import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
# scripts, tools and benchmarks are imported from here, wherever the tests are started; behind all
# else, for in a ROS workspace phyai_ros is the installed one: the source tree has no phyai_ros.msg.
sys.path[:] = [*(p for p in sys.path if Path(p or ".").resolve() != ROOT), str(ROOT)]

settings.register_profile("phyai", deadline=None)
settings.load_profile("phyai")
