# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which layers of pi0 and pi0.5 are in FP8 where that is asked for, and why the others are not.

Not layers, and in 16 or 32 bit as ever: patches and word embeddings (a look-up), positions, norms,
the residual stream, keys and values and attention's products (their error is not divided by a later
sum).
"""

from __future__ import annotations

import torch

from phyai_ros.engine.quantize import Fp8Plan

_LANGUAGE = r"language\.layers\.\d+"
_EXPERT = r"expert\.layers\.\d+\.(attention|mlp)\..*"
_DENSE = r"expert\.(layers\.\d+\.norm[12]|norm)\.dense"
_OUTPUT = rf"{_LANGUAGE}\.attention\.output"
_KEEPS = {
    r"image\.layers\..*": "768 rows gain nothing, for the passes that quantise take what the "
    "products save; alone they move pi0.5's actions by 1.6e-2 where 3e-2 is allowed for all",
    r"projector": "one product a request: every image token goes through its rounding",
    r"action_(in|out)|state_in|time_(in|out)": "narrow, float32: the robot's own units",
}


def _unread(depth: int) -> str:
    """Of the last layer of the language model, keys and values are all that is read."""
    return rf"language\.layers\.{depth - 1}\.(attention\.output|mlp\..*)"


def pi05_plan(depth: int) -> Fp8Plan:
    """depth: layers of the language model. The expert's weights are what a denoising step waits
    for: half the bytes take it from 21.6 to 17.4 us a layer in clusters, where its rows are E5M2
    (``cluster_product``); elsewhere they are E4M3 like all others."""
    return Fp8Plan(
        rows=(rf"{_LANGUAGE}\.(attention\.qkv|mlp\.(gate_up|down))", _EXPERT),
        keeps={
            **_KEEPS,
            _OUTPUT: "would save 0.05 ms, and the actions move by 1.8e-2 instead of 1.5e-2",
            _DENSE: "runs once a load; scales all it norms",
        },
        casts={_DENSE: torch.float16},
        unread=_unread(depth),
        own=_EXPERT,
        # The kernel of gate and up leaves E5M2 itself, where a scale a row would take a pass.
        unscaled=rf"{_LANGUAGE}\.mlp\.down",
    )


def pi0_plan(depth: int) -> Fp8Plan:
    """As ``pi05_plan``, but less is in FP8: without the gates that time puts behind pi0.5's
    branches, the same roundings move pi0's actions three to seven times as far, by up to 8.7e-2.
    The language model's MLPs alone move them by 2.7e-2 where 3e-2 is allowed for all."""
    return Fp8Plan(
        rows=(rf"{_LANGUAGE}\.mlp\.(gate_up|down)",),
        keeps={
            **_KEEPS,
            rf"{_LANGUAGE}\.attention\.qkv": "alone moves the actions by 4.2e-2",
            _OUTPUT: "nothing more is allowed",
            _EXPERT: "alone moves the actions by 4.5e-2",
        },
        unread=_unread(depth),
        unscaled=rf"{_LANGUAGE}\.mlp\.down",
    )
