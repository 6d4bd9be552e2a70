# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a layer of pi0.5's prefix takes in attention, in the gated product and in the down
projection, by what may serve them, in turns in one run; random weights of six layers take turns.

``python benchmarks/prefix_layers.py attention gated fp8 down``; needs a Hopper GPU. Adds a row to
benchmarks/results/prefix_layers.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import record
import torch
from torch.nn import functional as F

from phyai_ros.engine.capturing import capturing
from phyai_ros.engine.kernels import (
    add_norm,
    attention,
    fp8_rows,
    gated_activation,
    gated_product,
    prefix_attention,
)
from phyai_ros.engine.kernels._cuda import CudaError
from phyai_ros.engine.kernels.attention import Blocks
from phyai_ros.engine.kernels.fp8_rows import Product
from phyai_ros.engine.layers import split_library
from phyai_ros.engine.quantize import QuantizedWeight, quantize_rows

LAYERS, HEADS, D, WIDTH, MLP = 6, 8, 256, 2048, 16384
BRAIN = torch.bfloat16
Launches = dict[str, Callable[[int], object]]
"""By name; the argument tells the layer."""


def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(BRAIN)


def attend(rows: int, batch: int) -> Launches:
    q = draw(batch, rows, HEADS, D)
    cache = [[draw(batch, 1, rows, D) for _ in range(2)] for _ in range(LAYERS)]
    exists = torch.ones(batch, rows, dtype=torch.bool, device="cuda")
    exists[:, -16:] = False
    blocks = Blocks(64, 64, 1, 2, 4) if batch == 1 else Blocks(128, 64, 1, 2, 8)

    def plain(i: int) -> object:
        return attention.fused(q, *cache[i], exists=exists, blocks=blocks, dependent=True)

    def by(form: prefix_attention.Form) -> Callable[[int], object]:
        return lambda i: prefix_attention.fused(
            q, *cache[i], exists=exists, form=form, dependent=True
        )

    forms = [(0, 1), (0, 0), (4, 1), (8, 1), (8, 0)]
    ours = {f"clusters {f}": by(prefix_attention.Form(*f)) for f in forms}
    return {"triton": plain, **ours}


def gate(rows: int) -> Launches:
    x = draw(rows, WIDTH)
    weights = [draw(2 * MLP, WIDTH, scale=WIDTH**-0.5) for _ in range(LAYERS)]

    def plain(i: int) -> object:
        y = F.linear(x, weights[i])
        return gated_activation.fused(y, "gelu_tanh", dependent=True)

    def by(form: gated_product.Form) -> Callable[[int], object]:
        return lambda i: gated_product.fused(x, weights[i], "gelu_tanh", form=form, dependent=True)

    ours = {f"one launch {f}": by(gated_product.Form(*f)) for f in FORMS}
    return {"library and pass": plain, "library alone": lambda i: F.linear(x, weights[i]), **ours}


FORMS = [(2, 1), (2, 0), (2, 2), (1, 0), (1, 1)]


def gate_fp8(rows: int) -> Launches:
    x = quantize_rows(draw(rows, WIDTH))
    weights = [QuantizedWeight.of(draw(2 * MLP, WIDTH, scale=WIDTH**-0.5)) for _ in range(LAYERS)]
    one = torch.ones((), device="cuda")

    def alone(i: int) -> torch.Tensor:
        return torch._scaled_mm(
            x.values, weights[i].values.t(), scale_a=one, scale_b=one, out_dtype=BRAIN,
            use_fast_accum=True,
        )  # fmt: skip

    def plain(i: int) -> object:
        made = Product(alone(i), x.scale, weights[i].exponents)
        return fp8_rows.fused(made, None, "gelu_tanh", gated=True, dependent=True)

    def gated(i: int, form: gated_product.Form) -> torch.Tensor:
        return gated_product.fused_fp8(x, weights[i], "gelu_tanh", form=form, dependent=True)

    def by(form: gated_product.Form) -> Callable[[int], object]:
        return lambda i: fp8_rows.fused(gated(i, form), dependent=True)

    ours = {f"one launch and pass {f}": by(gated_product.Form(*f)) for f in FORMS}
    form = gated_product.Form(2, 1)
    ours["one launch alone (2, 1)"] = lambda i: gated(i, form)
    return {"library and pass": plain, "library alone": alone, **ours}


def down(rows: int) -> Launches:
    x = draw(rows, MLP)
    weights = [draw(WIDTH, MLP, scale=MLP**-0.5) for _ in range(LAYERS)]
    stream = torch.zeros(rows, WIDTH, device="cuda")

    def read(branch: torch.Tensor) -> object:
        return add_norm.fused(stream, branch, kind="rms", eps=1e-6, dtype=BRAIN, dependent=True)

    def split(count: int) -> Callable[[int], object]:
        return lambda i: read(split_library.parts(x, weights[i], count))

    return {
        "library and norm": lambda i: read(F.linear(x, weights[i])),
        "library alone": lambda i: F.linear(x, weights[i]),
        **{f"in {n} parts, and norm": split(n) for n in (2, 4)},
        "in 2 parts alone": lambda i: split_library.parts(x, weights[i], 2),
    }


def captured(launch: Callable[[int], object]) -> torch.cuda.CUDAGraph:
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for i in range(LAYERS):
            launch(i)
        torch.cuda.synchronize()
        with capturing(graph):
            for _ in range(3):
                for i in range(LAYERS):
                    launch(i)
    return graph


def microseconds(launches: Launches, turns: int = 12) -> dict[str, float]:
    """A launch's, the median of several replays of 18 in a graph, the candidates in turns."""
    graphs = {}
    for name, launch in launches.items():
        try:
            graphs[name] = captured(launch)
        except CudaError as error:  # one form that the driver refuses
            print(name, error, flush=True)
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(turns):
        for name, graph in graphs.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()  # this one's heat, not the last one's
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            if turn > 1:
                times[name].append(1e3 * start.elapsed_time(stop) / (3 * LAYERS))
    return {name: round(statistics.median(t), 2) for name, t in times.items()}


def cases(parts: list[str]) -> Iterator[tuple[str, Callable[[], Launches]]]:
    if "attention" in parts:
        for rows, batch in ((816, 1), (968, 1), (816, 8)):
            yield f"attention {batch} x {rows}", lambda r=rows, b=batch: attend(r, b)
    for part, make in (("gated", gate), ("fp8", gate_fp8), ("down", down)):
        for rows in (816, 968) if part in parts else ():
            yield f"{part} {rows}", lambda r=rows, m=make: m(r)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=("attention", "gated", "fp8", "down"))
    parser.add_argument("--out", type=Path, help="folder of the row; default benchmarks/results")
    options = parser.parse_args()
    torch.manual_seed(0)
    found = {}
    for name, make in cases(options.parts):
        found[name] = microseconds(make())
        print(name, found[name], flush=True)
    row = record.row(
        "prefix_layers",
        {"gpu": torch.cuda.get_device_name(), "what": "us a launch", "us": found},
    )
    record.save("prefix_layers.jsonl", row, options.out)


if __name__ == "__main__":
    main()
