# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One file a kernel: the Triton kernel, how it is launched, and its plain torch twin.

The twin is the definition; the kernel is checked against it. Which of them runs is the selector's
business (``layers/select.py``).
"""
