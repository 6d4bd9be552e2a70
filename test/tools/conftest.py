# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Makes this folder's helpers and the repository's ``scripts`` importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2])]
