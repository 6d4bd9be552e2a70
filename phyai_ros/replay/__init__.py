# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag through the same aligner, engine and handoff that run live. No rclpy."""
