# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7: a Qwen3-VL backbone cut at a layer, and a flow-matching diffusion transformer that
attends to its text and image tokens in turn."""
