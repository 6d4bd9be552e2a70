# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The kernels compile for GPUs that are not at hand: sm_80 to sm_120. Needs Triton, no GPU."""

import pytest

triton = pytest.importorskip("triton", reason="needs Triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from phyai_ros.engine.kernels import (  # noqa: E402
    _triton,
    add_norm,
    attention,
    flow_places,
    flow_step,
    flow_tokens,
    fp8_norm,
    fp8_rows,
    gated_activation,
    gated_linear,
    letterbox,
    patches,
    place_rows,
    prefix_places,
    prefix_rows,
    regroup,
    rope_cache,
    row_linear,
    skinny_linear,
    split_linear,
    stream_linear,
    token_rows,
)

pytestmark = pytest.mark.skipif(_triton.INTERPRETED, reason="the interpreter compiles nothing")
HALF, WIDE = "*fp16", "*fp32"
KERNELS = {
    "add_norm": (
        add_norm.add_norm_kernel,
        {"out_ptr": HALF, "eps": "fp32", "pick_ptr": "*i32", "order_ptr": "*i32"},
        {"PARTS": 4, "HAS_PICK": True, "HAS_BIAS": True, "HAS_GATE": True, "HAS_SCALE": True,
         "HAS_SHIFT": True, "HAS_START": True, "HAS_ORDER": True, "RMS": False, "BLOCK": 1024,
         "STEP": 64, "SHARE": 256},
    ),
    "attention": (
        attention.attention_kernel,
        {"q_ptr": HALF, "k_ptr": HALF, "v_ptr": HALF, "exists_ptr": "*u8", "out_ptr": HALF,
         "sum_ptr": HALF, "scale": "fp32"},
        {"KV": 1, "GROUP": 8, "D": 48, "WIDE": 64, "Q_PARTS": True, "Q_BIAS": True, "MASKED": True,
         "CAUSAL": True, "OWN_LAST": True, "FIRST_ALONE": True, "SPLITS": 3, "ROWS": 64,
         "KEYS": 64, "IEEE": False},
    ),
    "join": (
        attention.join_kernel,
        {"sum_ptr": HALF, "out_ptr": HALF},
        {"KV": 1, "GROUP": 8, "D": 256, "WIDE": 256, "SPLITS": 3, "WIDE_SPLITS": 4},
    ),
    "flow_step": (
        flow_step.flow_step_kernel,
        {"sign": "fp32", "rest": "fp32", "pull": "fp32", "inverse": "fp32"},
        {"BLOCK": 256},
    ),
    "flow_places": (
        flow_places.flow_places_kernel,
        dict.fromkeys(("images_ptr", "words_ptr", "exists_ptr"), "*u8"),
        {"HALF": 128, "WIDE": 128, "ROWS": 16, "BLOCK": 1024},
    ),
    "flow_tokens": (
        flow_tokens.flow_tokens_kernel,
        {"images_ptr": HALF, "table_ptr": "*bf16", "tokens_ptr": "*i64", "factor": "fp32"},
        {"BLOCK": 2048},
    ),
    "place_rows": (
        place_rows.place_rows_kernel,
        {"key_ptr": "*bf16", "value_ptr": "*bf16", "to_key_ptr": HALF, "to_value_ptr": HALF},
        {"BLOCK": 4096},
    ),
    "gated_activation": (
        gated_activation.gated_activation_kernel,
        {"x_ptr": HALF, "out_ptr": HALF},
        {"BLOCK": 2048, "ACTIVATION": "silu"},
    ),
    "gated_linear": (
        gated_linear.gated_linear_kernel,
        {"x_ptr": HALF, "w_ptr": HALF, "out_ptr": HALF},
        {"DEPTH_TOTAL": 1024, "LINES": 16, "ROWS": 64, "COLUMNS": 32, "DEPTH": 64,
         "ACTIVATION": "gelu_tanh", "IEEE": False},
    ),
    "letterbox": (
        letterbox.letterbox_kernel,
        {"pixels_ptr": "*u8", "y_at_ptr": "*i32", "x_at_ptr": "*i32"},
        {"Y_TAPS": 2, "X_TAPS": 2, "PILLOW": False, "BLOCK": 256},
    ),
    "letterbox_pillow": (
        letterbox.letterbox_kernel,
        {"pixels_ptr": "*u8", "y_at_ptr": "*i32", "x_at_ptr": "*i32", "y_weight_ptr": "*i32",
         "x_weight_ptr": "*i32"},
        {"Y_TAPS": 7, "X_TAPS": 7, "PILLOW": True, "BLOCK": 256},
    ),
    "patches": (
        patches.patches_kernel, {"out_ptr": HALF}, {"SIZE": 14, "VALUES": 588, "BLOCK": 1024},
    ),
    "prefix_places": (
        prefix_places.prefix_places_kernel,
        dict.fromkeys(("images_ptr", "marks_ptr", "words_ptr", "exists_ptr", "joint_ptr"), "*u8"),
        {"MARKS": True, "D": 64, "HALF": 32, "ROWS": 16, "BLOCK": 512},
    ),
    "prefix_rows": (
        prefix_rows.prefix_rows_kernel,
        {"images_ptr": HALF, "table_ptr": HALF, "tokens_ptr": "*i64", "rounded": "fp32",
         "factor": "fp32"},
        {"MARKS": True, "BLOCK": 1024},
    ),
    "rope_cache": (
        rope_cache.rope_cache_kernel,
        {"q_ptr": HALF, "key_ptr": HALF, "value_ptr": HALF, "eps": "fp32"},
        {"HEADS": 16, "KV": 8, "D": 128, "HALF": 64, "BLOCK": 8, "PARTS": 1,
         "SCALED": True, "BIASED": True, "NORM": True, "STEP": 64, "SHARE": 256},
    ),
    "regroup": (
        regroup.regroup_kernel, {"copy_ptr": HALF}, {"SCALED": True, "SHARE": 2.0**-6},
    ),
    "row_linear": (
        row_linear.row_linear_kernel, {}, {"WIDE": 1024, "COLUMNS": 4, "HAS_BIAS": True,
                                           "ACTIVATION": "silu"},
    ),
    "skinny_linear": (
        skinny_linear.skinny_linear_kernel,
        {"x_ptr": HALF, "w_ptr": HALF},
        {"DEPTH_PER_SPLIT": 512, "LINES": 8, "ROWS": 64, "COLUMNS": 32, "DEPTH": 64,
         "HAS_BIAS": False, "ACTIVATION": "", "IEEE": False},
    ),
    "split_rows": (
        split_linear.rows_kernel, {"out_ptr": HALF}, {"WIDE": 32, "COLUMNS": 128},
    ),
    "stream_into": (
        stream_linear.into_kernel, {"copy_ptr": HALF}, {"WIDE": 32, "COLUMNS": 128,
                                                        "SCALED": True, "SHARE": 2.0**-6},
    ),
    "token_rows": (
        token_rows.token_rows_kernel,
        {"first_ptr": HALF, "tokens_ptr": HALF, "places_ptr": HALF},
        {"HAS_PLACES": True, "BLOCK": 2048},
    ),
    "stream_out": (
        stream_linear.out_kernel,
        dict.fromkeys(("eps", "sign", "rest", "pull", "inverse_steps"), "fp32"),
        {"WIDE": 1024, "COLUMNS": 4, "EULER": True},
    ),
}  # fmt: skip


SMALL = "*fp8e4nv"
FP8_KERNELS = {
    "fp8_norm": (
        fp8_norm.fp8_norm_kernel,
        {"branch_ptr": "*bf16", "out_ptr": SMALL, "eps": "fp32"},
        {"PARTS": 1, "SCALED": True, "HAS_ROWS": True, "HAS_BIAS": True, "HAS_GATE": True,
         "HAS_SCALE": True, "HAS_SHIFT": True, "RMS": False, "QUANTISED": True,
         "BLOCK": 1024, "STEP": 128, "SHARE": 256},
    ),
    "fp8_rows": (
        fp8_rows.fp8_rows_kernel,
        {"x_ptr": "*bf16", "out_ptr": SMALL},
        {"BLOCK": 4096, "SCALED": True, "HAS_BIAS": True, "ACTIVATION": "gelu_tanh",
         "GATED": True, "PLAIN": False},
    ),
    "fp8_rows E5M2": (
        fp8_rows.fp8_rows_kernel,
        {"x_ptr": "*bf16", "out_ptr": "*fp8e5"},
        {"BLOCK": 4096, "SCALED": True, "HAS_BIAS": False, "ACTIVATION": "gelu_tanh",
         "GATED": True, "PLAIN": True},
    ),
}  # fmt: skip
KERNELS |= FP8_KERNELS


@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
@pytest.mark.parametrize("name", KERNELS)
def test_compiles(name, capability):
    if name in FP8_KERNELS and capability < 89:
        pytest.skip("FP8 units came with 8.9")
    kernel, types, constants = KERNELS[name]
    constants = {**constants, "PDL": capability >= 90}
    signature = {
        argument: "constexpr"
        if argument in constants
        else types.get(argument, WIDE if argument.endswith("_ptr") else "i32")
        for argument in kernel.arg_names
    }
    places = {(kernel.arg_names.index(k),): v for k, v in constants.items()}
    made = triton.compile(
        ASTSource(kernel, signature, places), target=GPUTarget("cuda", capability, 32)
    )
    assert made.asm["cubin"]
