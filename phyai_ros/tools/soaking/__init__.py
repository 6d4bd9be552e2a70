# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros soak``: faults on a schedule, an independent watcher, a verdict."""
