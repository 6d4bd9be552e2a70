# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert's 18 layers in one launch, random weights: its error against float64 beside the
half-precision twin's, time a layer, runs that differ, and clocks of each phase on every block.

``python benchmarks/expert_stack.py [--define NAME=VALUE ...]``; needs a Hopper GPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import record
import torch

from phyai_ros.engine.kernels.gemma_stack import GemmaStack, Layer, Norms, reference, vectors

DEPTH, TOKENS, PREFIX = 18, 50, 816
PHASES = ("qkv", "attention", "output", "gate_up", "down")
PARTS = ("wait", "multiply_and_send", "gather", "epilogue")
REST = {"at": PREFIX, "eps": 1e-6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--define", action="append", default=[], help="of the source: BACKOFF=100")
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    defines = {k: int(v) for k, v in (d.split("=") for d in options.define)}
    layers, norms, caches, x = case()
    packed = vectors(layers, norms)
    stack = GemmaStack(layers, TOKENS, **defines)
    first = stack(x.clone(), *caches, packed, **REST)
    key, value, *tables = caches
    exact = reference(x.double(), layers, norms, key.double(), value.double(), *tables, **REST)
    half = reference(x, layers, norms, key.clone(), value.clone(), *tables, **REST)
    differ = sum(
        not torch.equal(first, stack(x.clone(), *caches, packed, **REST))
        for _ in range(options.runs)
    )
    state = x.clone()
    seconds = replay_seconds(lambda: stack(state, *caches, packed, **REST))
    row = {
        "defines": defines,
        "blocks": stack.blocks,
        "error_vs_float64": error(first, exact),
        "twin_vs_float64": error(half, exact),
        "runs": options.runs,
        "runs_that_differ": differ,
        "us_a_layer": round(1e6 * seconds / DEPTH, 2),
        "clocks": clocks(layers, defines, x, caches, packed),
        "gpu": torch.cuda.get_device_name(),
    }
    record.save("expert_stack.jsonl", record.row("expert_stack", row))
    print(row)


def case() -> tuple[list[Layer], list[Norms], tuple[torch.Tensor, ...], torch.Tensor]:
    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, device="cuda") * scale

    def weight(out: int, width: int) -> torch.Tensor:
        return draw(out, width, scale=width**-0.5).half()

    layers = [
        Layer(weight(2560, 1024), weight(1024, 2048), weight(8192, 1024), weight(1024, 4096))
        for _ in range(DEPTH)
    ]
    norms = [
        Norms(*(v for _ in range(2) for v in (1 + draw(1024, scale=0.2), draw(1024, scale=0.2),
                                              draw(1024, scale=0.3))))
        for _ in range(DEPTH)
    ]  # fmt: skip
    key, value = (draw(DEPTH, 1, 1, PREFIX + TOKENS, 256).half() for _ in "kv")
    exists = torch.rand(1, PREFIX + TOKENS, device="cuda") > 0.1
    exists[:, PREFIX:] = True
    angle = draw(1, TOKENS, 128)
    tables = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    return layers, norms, (key, value, exists, *tables), draw(TOKENS, 1024)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def replay_seconds(run: Callable[[], Any], launches: int = 10) -> float:
    """Median of 20 replays of a graph."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        run()
        torch.cuda.synchronize()
        graph.capture_begin()
        for _ in range(launches):
            run()
        graph.capture_end()
    times = []
    for _ in range(20):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e3 / launches)
    return sorted(times)[10]


def clocks(
    layers: list[Layer], defines: dict[str, int], x: torch.Tensor, caches: Any, packed: torch.Tensor
) -> dict[str, dict[str, list[int]]]:
    """Of each phase and part: mean over blocks and layers, the least and the most of a block."""
    stack = GemmaStack(layers, TOKENS, STAMPS=1, **defines)
    stack.stamps = torch.zeros(stack.blocks, DEPTH, 25, dtype=torch.int64, device="cuda")
    for _ in range(5):
        stack(x.clone(), *caches, packed, **REST)
    stamped = [p * 5 + i for p in range(5) for i in (1, 2, 3, 4)]
    flat = stack.stamps.cpu().double()[:, :, stamped].flatten(1)
    steps = flat[:, 1:] - flat[:, :-1]
    steps = torch.cat([torch.zeros(len(steps), 1), steps], 1).view(-1, DEPTH, 20)[:, 1:].mean(1)
    table = steps.view(-1, 5, 4)
    return {
        phase: {
            part: [round(float(f)) for f in (of.mean(), of.min(), of.max())]
            for part, of in zip(PARTS, table[:, i].T, strict=True)
        }
        for i, phase in enumerate(PHASES)
    }


if __name__ == "__main__":
    main()
