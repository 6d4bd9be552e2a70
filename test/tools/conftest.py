# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Makes this folder's helpers importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
