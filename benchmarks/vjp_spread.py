# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Why ``rtc_vjp`` hardly guides a policy that knows what it wants, and what stronger weights do.

The published weight takes the normalised actions of an observation to be spread by one. A policy
that is sure spreads them far less, and its Jacobian pulls as much less. With the spread s in the
formula (r^2 = (1 - t)^2 s^2 / (t^2 s^2 + (1 - t)^2)) and a higher cap the weight makes up for
it; this runs the study's task at d = 4 with some of both. Adds a row to results/guidance.jsonl.

    python benchmarks/vjp_spread.py --model gr00t
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import record
import torch

from phyai_ros.engine import rtc
from phyai_ros.engine.solver import Toward
from phyai_ros.nodes import model_file
from phyai_ros.study import design, latency, measure
from phyai_ros.study.loop import Condition
from phyai_ros.study.worker import Cell

SETTINGS = ((1.0, 1.0), (0.2, 10.0), (0.1, 10.0), (0.05, 20.0), (0.05, math.inf))
"""(spread, cap of the weight in denoising steps); the first is the published form."""


def weight(tau: float, spread: float, cap: float) -> float:
    if tau <= 0.0:
        return cap
    wide = tau * tau * spread * spread
    return min(cap, (wide + (1 - tau) ** 2) / (tau * (1 - tau) * spread * spread))


def strengthen(spread: float, cap: float) -> None:
    """Give ``rtc_vjp`` these weights, for this process."""

    def evaluate(
        self: rtc.RtcVjp, toward: Toward, x: torch.Tensor, tau: float, steps: int
    ) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            v = toward(x)
            estimate = x + (1.0 - tau) * v
            error = ((self.target - estimate) * self.weights).detach()
            (pull,) = torch.autograd.grad(estimate, x, error)
        most = min(cap * steps, 1e4)
        return torch.add(v.detach(), pull, alpha=weight(tau, spread, most))

    rtc.RtcVjp.evaluate = evaluate  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="gr00t")
    parser.add_argument("--episodes", type=int, default=4)
    options = parser.parse_args()
    model, source = model_file.load(options.model)
    checkpoint = model_file.checkpoint_path(model.checkpoint, source)
    cell = Cell(
        design.Setting("ur10e", options.model, checkpoint, None, "follow", 0.04, False, 10.0)
    )

    def run(handoff: str) -> dict[str, Any]:
        condition = Condition(handoff, 8, latency.parse("200"))
        seeds = range(design.FIRST_SEED, design.FIRST_SEED + options.episodes)
        found = measure.summary([cell.run(condition, seed) for seed in seeds])
        return {k: found[k] for k in ("successes", "episodes", "boundary_jerk", "interior_jerk")}

    results = {"replace": run("replace")}
    for spread, cap in SETTINGS:
        strengthen(spread, cap)
        results[f"rtc_vjp, spread {spread:g}, cap {cap:g} n"] = run("rtc_vjp")
        print(json.dumps(results), flush=True)
    entry = record.row("vjp_spread", {"model": options.model, "delay": "200 ms", "s": 8})
    record.save("guidance.jsonl", entry | {"results": results})
    cell.close()


if __name__ == "__main__":
    main()
