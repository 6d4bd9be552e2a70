# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""See docs/architecture.md."""
