# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which of GR00T N1.7's layers are in FP8 where that is asked for, and why the others are not."""

from __future__ import annotations

from phyai_ros.engine.quantize import Fp8Plan


def fp8_plan(interleave: bool) -> Fp8Plan:
    """interleave: whether every other block of the DiT attends to itself. Not layers, and in 16 or
    32 bit as ever: word embeddings (a look-up), the embodiments' own layers, norms, the residual
    streams, keys and values and attention's products."""
    dit = r"action_head\.model\.transformer_blocks\.\d*"
    reads_prefix, own = (r"[02468]", r"[13579]") if interleave else (r"\d", r"(?!)")
    return Fp8Plan(
        rows=(
            rf"{dit}{reads_prefix}\.attn1\.to_[kv]",
            rf"{dit}{own}\.attn1\.to_[qkv]",
            rf"{dit}\d\.ff\.net\.(0\.proj|2)",
        ),
        keeps={
            r"backbone\..*": "512 and 160 rows gain 0.2 ms of 7.7; the image tower alone moves the "
            "actions by 3.5e-2, the language model by 2.5e-2, where 3e-2 is allowed for all",
            r"action_head\.vl_self_attention\..*": "160 rows gain nothing, and with it the actions "
            "move by up to 3.1e-2, 1.9e-2 without",
            rf"{dit}\d\.attn1\.to_out\.0": "what attention gives would need a pass of its own to "
            "be quantised, which takes what the product gains",
            rf"{dit}{reads_prefix}\.attn1\.to_q": "41 rows of a small product: starts, not bytes, "
            "take the time",
            r"action_head\.model\.(timestep_encoder\..*|proj_out_1)": "runs once a load",
            rf"{dit}\d\.norm1\.linear": "runs once a load; scales every activation",
            r"action_head\.model\.proj_out_2": "the last projection before the actions",
        },
    )
