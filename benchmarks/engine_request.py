# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A whole request: raw images on the host to robot units there, and what of it is not the model."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import record
import synthetic
import torch

from phyai_ros.engine.policy import Policy
from phyai_ros.engine.types import Observation

MODEL = ("vision", "prefix", "solver")
LIKE = record.ROOT / "phyai_ros" / "checkpoints" / "pi05_ur10e_small"
"""The LeRobot checkpoint whose preprocessing stands in front of the full-size model."""
CAMERAS = 3
SIZE = (480, 640)


def run(device: torch.device, requests: int) -> dict[str, Any]:
    """pi0.5 at published sizes behind a LeRobot checkpoint's own preprocessing, three cameras."""
    with tempfile.TemporaryDirectory() as folder:
        adapter = synthetic.request(LIKE, Path(folder), device, torch.bfloat16, CAMERAS)
    begin = time.perf_counter()
    policy = Policy(adapter, device)
    policy.warm_up(dict.fromkeys(adapter.spec.cameras, SIZE))
    configure = time.perf_counter() - begin
    given = observations(policy)
    gc.collect()
    gc.freeze()  # as policy_node does before it answers: a full collection takes 50 ms
    whole, rest, stages = [], [], []
    for i in range(requests + 20):
        start = time.perf_counter()
        chunk = policy.infer(given[i % len(given)])
        seconds = time.perf_counter() - start
        if i >= 20:
            whole.append(1e3 * seconds)
            rest.append(1e3 * (seconds - sum(chunk.stages[s] for s in MODEL)))
            stages.append(chunk.stages)
    gc.unfreeze()
    model = [1e3 * sum(s[m] for m in MODEL) for s in stages]
    row = {
        "work": "request",
        "what": f"pi0.5, {CAMERAS} images of {SIZE[0]} x {SIZE[1]} bytes on the host to robot "
        "units there",
        "replayed": policy.runner.replayed,
        "tokens": int(adapter.stage_rest(given[:1]).tokens.shape[1]),
        "capture_s": round(configure, 1),
        "requests": len(whole),
        "whole_p50_ms": at(whole, 50),
        "whole_p99_ms": at(whole, 99),
        "whole_max_ms": at(whole, 100),
        "p99_over_p50": round(at(whole, 99) / at(whole, 50), 4),
        "model_p99_over_p50": round(at(model, 99) / at(model, 50), 4),
        "outside_model_p50_ms": at(rest, 50),
        "outside_model_p99_ms": at(rest, 99),
        "stages_p50_ms": {s: at([1e3 * x[s] for x in stages], 50) for s in stages[0]},
        "wanted": {"outside_model_p50_ms": 0.6, "p99_over_p50": 1.03},
    }
    row["passed"] = row["outside_model_p50_ms"] <= 0.6 and row["p99_over_p50"] <= 1.03
    return row


def observations(policy: Policy) -> list[Observation]:
    """Four moments of other pixels and states; one instruction."""
    rng, spec = np.random.default_rng(0), policy.spec
    return [
        Observation(
            {k: rng.integers(0, 255, (*SIZE, 3), dtype=np.uint8) for k in spec.cameras},
            rng.normal(0, 0.3, spec.state_dim),
            "pick up the cup",
        )
        for _ in range(4)
    ]


def at(values: list[float], p: float) -> float:
    return round(float(np.percentile(values, p)), 3)
