# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a guided handoff costs pi0.5 at its published size on a CUDA device.

Raw images on the host to robot units there, one prompt length. The same model once without any
guidance in its captured loop and once with; requests of all kinds take turns, so that a device
that gets warmer gets warmer for all. Adds a row to benchmarks/results/guidance.jsonl and exits with
1 where a method costs more than 3 %, or a request was not replayed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine_request
import numpy as np
import record
import synthetic
import torch

from phyai_ros.engine.policy import Policy
from phyai_ros.engine.types import Guidance, Observation

MOST = 0.03
"""Share of an unguided request by which a guided one may be slower; ``rtc_vjp`` is not timed."""
METHODS = ("rtc_identity", "seam", "rtc_trained")
CAMERAS, TRAINED_DELAY, COMMITTED = 3, 8, 6


def policy(folder: Path, device: torch.device, guidance: tuple[str, ...]) -> Policy:
    adapter = synthetic.request(engine_request.LIKE, folder, device, torch.bfloat16, CAMERAS)
    adapter.spec = replace(adapter.spec, guidance_methods=guidance, trained_delay=TRAINED_DELAY)
    adapter.model.config = replace(adapter.model.config, trained_delay=TRAINED_DELAY)
    made = Policy(adapter, device)
    seen = engine_request.observations(made)[0]
    length = int(adapter.prepare([seen]).tokens.shape[1])
    adapter.graph_lengths = lambda _: (length,)  # all that is asked for here
    made.warm_up(dict.fromkeys(adapter.spec.cameras, engine_request.SIZE))
    return made


def wish(made: Policy, seen: Observation, method: str) -> Guidance:
    """42 rows left over, near the middle of the actions' range."""
    rng = np.random.default_rng(1)
    spec = made.spec
    x = rng.normal(0, 0.3, (1, spec.horizon, spec.model_action_dim)).astype(np.float32)
    (rows,) = made.adapter.decode(x, [seen])
    return Guidance(rows[: spec.horizon - 8], COMMITTED, method, 8)


def error(made: Policy, seen: Observation, guidance: Guidance | None) -> float:
    """Of an answer, relative to the reference path's in the same precision."""
    plain = Policy(made.adapter, made.runner.device, selector="reference")
    noise = np.random.default_rng(2).normal(size=made.noise_shape(1)[1:]).astype(np.float32)
    found, expected = (p.infer(seen, noise, guidance).normalised for p in (made, plain))
    return round(float(np.linalg.norm(found - expected) / np.linalg.norm(expected)), 5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    parser.add_argument("--out", type=Path, help="folder for the row instead of results/")
    options = parser.parse_args()
    device = torch.device("cuda")
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        plain = policy(Path(name), device, ())
        able = policy(Path(name), device, METHODS)
    print(f"captured after {time.perf_counter() - begin:.0f} s", flush=True)
    seen = engine_request.observations(plain)
    kinds: dict[str, tuple[Policy, Any]] = {"none": (plain, None), "zero weights": (able, None)}
    kinds |= {m: (able, wish(able, seen[0], m)) for m in METHODS}
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    stages: dict[str, list[Any]] = {kind: [] for kind in kinds}
    replayed = dict.fromkeys(kinds, 0)
    gc.collect()
    gc.freeze()
    for i in range(options.requests + 10):
        for kind, (made, guidance) in kinds.items():
            before = made.runner.replayed
            start = time.perf_counter()
            chunk = made.infer(seen[i % len(seen)], guidance=guidance)
            seconds = time.perf_counter() - start
            if i >= 10:
                took[kind].append(1e3 * seconds)
                stages[kind].append(chunk.stages)
                replayed[kind] += made.runner.replayed - before
    base = float(np.median(took["none"]))
    results = {
        kind: {
            "whole_p50_ms": engine_request.at(took[kind], 50),
            "whole_p99_ms": engine_request.at(took[kind], 99),
            "stages_p50_ms": {
                stage: engine_request.at([1e3 * s[stage] for s in stages[kind]], 50)
                for stage in stages[kind][0]
            },
            "over_none": round(float(np.median(took[kind])) / base - 1, 4),
            "error": error(kinds[kind][0], seen[0], kinds[kind][1]),
        }
        for kind in kinds
    }
    worst = max(results[m]["over_none"] for m in METHODS)
    row = {
        "work": "guided",
        "what": f"pi0.5 at the published size, bfloat16, {CAMERAS} images; captured without "
        "guidance, with weights of zero, and guided",
        "requests": options.requests,
        "replayed": replayed,
        "results": results,
        "gpu": torch.cuda.get_device_name(),
        "wanted": {"over_none_at_most": MOST, "replayed": options.requests},
        "passed": worst <= MOST and min(replayed.values()) == options.requests,
    }
    entry = record.row("guided", row)
    record.save("guidance.jsonl", entry, options.out)
    print(json.dumps(entry))
    return 0 if row["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
