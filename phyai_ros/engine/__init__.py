# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The inference engine: ``engine.policy.load_policy`` is the front door."""
