# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A layer of pi0.5's action expert from the Hopper kernels, random weights: each launch in a chain
of its own kind, the layer's four products, and the layer, with and without early launches.

``python benchmarks/cluster_layers.py``; needs a Hopper GPU. Adds a row to
benchmarks/results/cluster_layers.jsonl. Weights of 18 layers take turns, so that each is read from
device memory, as in the model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import record
import torch

from phyai_ros.engine.capturing import capturing
from phyai_ros.engine.kernels import attention
from phyai_ros.engine.kernels.cluster_attention import ClusterAttention
from phyai_ros.engine.kernels.cluster_product import ClusterProduct
from phyai_ros.engine.kernels.gemma_forms import form
from phyai_ros.engine.kernels.regroup import reference_into

LAYERS, ROWS, PREFIX = 18, 50, 816
WIDTH, HEADS, D, MLP = 1024, 8, 256, 4096
HALF = torch.float16
SHAPES = {
    "qkv": ("rope", (HEADS + 2) * D, WIDTH),
    "output": ("residual", WIDTH, HEADS * D),
    "gate_up": ("gated", 2 * MLP, WIDTH),
    "down": ("residual", WIDTH, MLP),
}


class Layers:
    """The launches of every layer, by name."""

    def __init__(self, dependent: bool):
        def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
            return torch.randn(*shape, device="cuda") * scale

        def fragments(width: int) -> torch.Tensor:
            return torch.zeros(width // 16, 4, 32, 8, dtype=HALF, device="cuda")

        scale = 1 + draw(WIDTH, scale=0.1)
        x, copy, squares = reference_into(draw(ROWS, WIDTH), HALF, scale)
        queries, attended, hidden = fragments(HEADS * D), fragments(HEADS * D), fragments(MLP)
        gate = draw(WIDTH, scale=0.1)
        left = {"out": copy, "scale": scale, "squares": squares, "gate": gate}
        cos, sin = draw(ROWS, D).cos(), draw(ROWS, D).sin()
        exists = torch.ones(PREFIX + ROWS, dtype=torch.bool, device="cuda")
        self.plain: list[Callable[[], object]] = []
        self.of: dict[str, list[Callable[[], object]]] = {n: [] for n in (*SHAPES, "attention")}
        self.forms: dict[str, list[int]] = {}
        q = draw(1, ROWS, HEADS, D).to(HALF)
        for _ in range(LAYERS):
            made = {}
            for name, (epilogue, n, k) in SHAPES.items():
                weight = draw(n, k, scale=k**-0.5).to(HALF)
                of = form(weight, epilogue, d=D, heads=HEADS)
                assert of is not None
                self.forms[name] = [of.blocks, of.groups, of.half, of.registers]
                made[name] = ClusterProduct(weight, of, dependent=dependent)
            key, value = (draw(PREFIX + ROWS, D).to(HALF) for _ in range(2))
            attend = ClusterAttention(key, value, at=PREFIX, rows=ROWS, dependent=dependent)
            biases = {n: draw(SHAPES[n][1], scale=0.1) for n in ("qkv", "gate_up")}
            self._add("qkv", made["qkv"], copy, out=queries, squares=squares, bias=biases["qkv"],
                      key=key[PREFIX:], value=value[PREFIX:], cos=cos, sin=sin,
                      eps=1e-6)  # fmt: skip
            self.of["attention"].append(partial(attend, queries, exists, out=attended))
            self._add("output", made["output"], attended, x=x, **left)
            self._add("gate_up", made["gate_up"], copy, out=hidden, squares=squares,
                      bias=biases["gate_up"], eps=1e-6)  # fmt: skip
            self._add("down", made["down"], hidden, x=x, **left)
            self.plain.append(
                partial(
                    attention.fused, q, key[None, None], value[None, None], exists=exists[None],
                    blocks=attention.Blocks(128, 64, 14, 2, 8), dependent=dependent,
                )
            )  # fmt: skip

    def _add(
        self, name: str, product: ClusterProduct, source: torch.Tensor, **options: Any
    ) -> None:
        self.of[name].append(lambda: product(source, rows=ROWS, **options))

    def run(self, names: tuple[str, ...]) -> None:
        for i in range(LAYERS):
            for name in names:
                self.of[name][i]()


def microseconds(run: Callable[[], object]) -> float:
    """A layer's share; median of 40 replays of a graph of all layers."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        run()
        torch.cuda.synchronize()
        with capturing(graph):
            run()
    times = []
    for _ in range(40):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(1e3 * start.elapsed_time(stop) / LAYERS)
    return round(sorted(times)[20], 2)


ORDER = ("qkv", "attention", "output", "gate_up", "down")
PRODUCTS = ("qkv", "output", "gate_up", "down")


def measured(layers: Layers) -> dict[str, float]:
    parts: list[tuple[str, ...]] = [(name,) for name in ORDER]
    found = {part[0]: microseconds(partial(layers.run, part)) for part in parts}
    found["products"] = microseconds(partial(layers.run, PRODUCTS))
    found["layer"] = microseconds(partial(layers.run, ORDER))
    found["attention split and joined, Triton"] = microseconds(
        lambda: [run() for run in layers.plain]
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the row; default benchmarks/results")
    options = parser.parse_args()
    torch.manual_seed(0)
    early = Layers(dependent=True)
    row = record.row(
        "cluster_layers",
        {
            "gpu": torch.cuda.get_device_name(),
            "what": "blocks, warpgroups, half the columns, registers; us a launch or a layer",
            "forms": early.forms,
            "us_early": measured(early),
            "us_one_after_the_other": measured(Layers(dependent=False)),
        },
    )
    record.save("cluster_layers.jsonl", row, options.out)
    print(row)


if __name__ == "__main__":
    main()
