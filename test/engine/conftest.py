# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Engine tests: one thread (two cores are shared), and ``golden`` importable."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)
