# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A form that fits is one that its kernel compiles in, of any width."""

import subprocess
from pathlib import Path

import dit_case
import pytest
import torch
from emulated_gpu import needs_compiler

from phyai_ros.engine.kernels import _cuda, gemma_forms, llama_expert
from phyai_ros.engine.kernels.cluster_product import Form
from phyai_ros.engine.quantize import E4M3, QuantizedWeight

WIDTHS = (128, 256, 512, 768, 1024, 1280, 1536, 2048, 4096)


def weight(n, k, fp8):
    if not fp8:
        return torch.empty(n, k, dtype=torch.float16, device="meta")
    values = torch.empty(n, k, dtype=E4M3, device="meta")
    return QuantizedWeight(values, torch.empty(n, device="meta"), torch.float16)


def offered():
    """Forms by what they are of."""
    found = {}
    for width in WIDTHS:
        for fp8 in (False, True):
            for kind, n, k in (
                ("rope", 10 * 256, width), ("residual", width, 4 * width),
                ("gated", 8 * width, width),
            ):  # fmt: skip
                made = gemma_forms.form(weight(n, k, fp8), kind)
                found[f"gemma {kind} {width} {'E4M3' if fp8 else '16 bit'}"] = made
        for kind, n, k in (
            ("output", width, width), ("down", width, 4 * width), ("enter", width, 3 * width),
            ("gated", 8 * width, width),
        ):  # fmt: skip
            found[f"llama {kind} {width}"] = llama_expert.form(kind, (n, k))
    return {name: form for name, form in found.items() if form is not None}


@needs_compiler
def test_what_fits_is_what_the_kernels_assert(tmp_path):
    forms = offered()
    assert len(forms) > 40
    text = (Path(_cuda._SOURCES) / "join.cuh").read_text().split("// The j-th group")[0]
    asserts = [line for line in text.splitlines() if line.startswith("static_assert")]
    defines = [line for line in text.splitlines() if line.startswith("#define")]
    assert len(asserts) >= 4
    parts = []
    for form in forms.values():
        given = {
            "K": form.k, "BLOCKS": form.blocks, "GROUPS": form.groups, "COLUMNS": 2 * form.half,
            "PAIRED": int(form.paired), "FP8": int(form.fp8),
        }  # fmt: skip
        parts += [f"#define {name} {value}" for name, value in given.items()]
        parts += [*defines, *asserts]
        parts += [f"#undef {name}" for name in (*given, *(d.split()[1] for d in defines))]
    source = tmp_path / "forms.cc"
    source.write_text("\n".join(parts))
    command = ["g++", "-std=c++17", "-fsyntax-only", str(source)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize(("k", "fits"), [(512, False), (1024, True)])
def test_four_warpgroups_leave_their_sums_where_their_weights_were(k, fits):
    """Of 512 bytes a column each has 128: less than the sums of the other three."""
    form = Form(2048, k, 1, 4, 32, "gated", "rms", "gelu_tanh", registers=128, fp8=True)
    assert form.fits() is fits


def test_blocks_of_the_published_layers():
    """What ``dit_layers`` says of them: on 132 multiprocessors others find room beside 96."""
    for fp8, forms in dit_case.USED.items():
        blocks = {kind: f.n // f.columns * f.blocks for kind, f in forms.items()}
        assert blocks == {
            "own": 96, "cross": 96, "output": 96, "up": 128 if fp8 else 96, "down": 96, "last": 64,
        }  # fmt: skip
