# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where the golden fixtures are, and how to read a case."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

GOLDEN = Path(
    os.environ.get("PHYAI_GOLDEN", Path(__file__).resolve().parents[3] / "shared" / "golden")
)
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"golden fixtures not at {GOLDEN} (set PHYAI_GOLDEN)"
)


def cases(fixture: str) -> dict:
    return json.loads((GOLDEN / fixture / "cases.json").read_text())


def tensors(fixture: str, case: str | None = None) -> dict[str, torch.Tensor]:
    """All arrays of a fixture, or those of one case with the case's name cut off."""
    loaded = load_file(GOLDEN / fixture / "cases.safetensors")
    if case is None:
        return loaded
    return {k.removeprefix(case + "."): v for k, v in loaded.items() if k.startswith(case + ".")}


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest absolute difference over the expected tensor's largest magnitude."""
    return ((found.double() - expected.double()).abs().max() / expected.double().abs().max()).item()
