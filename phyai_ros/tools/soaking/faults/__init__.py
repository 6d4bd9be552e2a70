# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What can be done to a running system, one family a file."""
