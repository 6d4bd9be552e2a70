# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Time decides no test: on a shared machine a first import alone can take a second."""

from hypothesis import settings

settings.register_profile("phyai", deadline=None)
settings.load_profile("phyai")
