# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Compile the kernels that the benchmark's shapes may choose from, in parallel processes, into
Triton's cache: run one candidate each, of shapes without a measured choice.
``python benchmarks/engine_compile.py 3 12`` is worker 3 of 12."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import synthetic
import torch

from phyai_ros.engine.kernels import (
    add_norm,
    attention,
    gated_linear,
    rope_cache,
    skinny_linear,
)
from phyai_ros.engine.layers.candidates import GATED_TILES, TILES, blocks_for
from phyai_ros.engine.layers.tune import Table
from phyai_ros.engine.runner import Runner
from phyai_ros.engine.types import Observation

HALF, BRAIN = torch.float16, torch.bfloat16
PARTS = (
    (50, 2560, 1024, HALF), (50, 1024, 2048, HALF), (50, 1024, 4096, HALF),
    (41, 1536, 1536, BRAIN), (41, 1536, 6144, BRAIN),
    (50, 1600, 768, BRAIN), (50, 960, 768, BRAIN), (50, 768, 960, BRAIN), (50, 768, 2048, BRAIN),
)  # fmt: skip
LINEAR = (
    (41, 4608, 1536, BRAIN, ""), (41, 6144, 1536, BRAIN, "gelu_tanh"), (41, 1024, 1536, BRAIN, ""),
    (40, 1536, 1536, BRAIN, "silu"), (40, 1536, 1536, BRAIN, ""), (40, 1024, 1024, BRAIN, "relu"),
)  # fmt: skip
GATED = ((50, 4096, 1024, HALF), (50, 2048, 768, BRAIN))
ATTENTION = (  # T, heads, kv, d, L, masked, causal, parts, dtype
    (50, 8, 1, 256, 866, True, False, 0, HALF), (816, 8, 1, 256, 816, True, False, 0, BRAIN),
    (256, 16, 16, 72, 256, False, False, 0, HALF), (41, 32, 32, 48, 160, True, False, 4, BRAIN),
    (41, 32, 32, 48, 41, False, False, 0, BRAIN), (160, 16, 8, 128, 160, True, True, 0, BRAIN),
    (256, 16, 16, 64, 256, False, False, 0, BRAIN), (160, 32, 32, 64, 160, True, False, 0, BRAIN),
    (50, 15, 5, 64, 291, True, True, 0, BRAIN), (50, 15, 5, 64, 241, True, False, 0, BRAIN),
    (241, 15, 5, 64, 241, True, "own", 0, BRAIN), (1024, 12, 12, 64, 1024, False, False, 0, BRAIN),
)  # fmt: skip


def tasks(device: torch.device, known: Iterable[str]) -> Iterator[Callable[[], object]]:
    def half(*shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
        return torch.randn(*shape, device=device, dtype=dtype)

    for t, heads, kv, d, keys, masked, causal, parts, dtype in ATTENTION:
        if any(f" T{t} H{heads}/" in name for name in known):
            continue
        for b in blocks_for(t * heads // kv, keys, d):

            def attend(t=t, heads=heads, kv=kv, d=d, keys=keys, masked=masked, causal=causal,
                       parts=parts, dtype=dtype, b=b):  # fmt: skip
                q = half(1, t, heads, d, dtype=dtype)
                if parts:
                    q = torch.randn(parts, 1, t, heads, d, device=device)
                k, v = (half(1, kv, keys, d, dtype=dtype) for _ in "kv")
                exists = torch.ones(1, keys, dtype=torch.bool, device=device) if masked else None
                bias = half(heads * d, dtype=dtype) if parts else None
                attention.fused(
                    q, k, v, exists=exists, causal=causal is True, own_last=causal == "own",
                    q_bias=bias, blocks=b, dependent=True,
                )  # fmt: skip

            yield attend
    for m, n, k, dtype in PARTS:
        if any(f" {m}x{n}x{k} " in name for name in known):
            continue
        for tile in TILES:
            if tile.fits(n, k):
                yield lambda m=m, n=n, k=k, dtype=dtype, tile=tile: skinny_linear.fused(
                    half(m, k, dtype=dtype), half(n, k, dtype=dtype), tile=tile, parts=True,
                    dependent=True,
                )  # fmt: skip
    for m, n, k, dtype, activation in LINEAR:
        if any(f" {m}x{n}x{k} " in name for name in known):
            continue
        for tile in TILES:
            if tile.fits(n, k) and tile.splits == 1:
                yield lambda m=m, n=n, k=k, dtype=dtype, a=activation, tile=tile: (
                    skinny_linear.fused(
                        half(m, k, dtype=dtype), half(n, k, dtype=dtype), half(n, dtype=dtype), a,
                        tile=tile, dependent=True,
                    )
                )  # fmt: skip
    vector = {n: torch.zeros(1536, device=device) for n in ("bias", "gate", "scale", "shift")}
    for parts in (1, 2, 3, 4, 5, 6, 8, 12):
        for m, width, kind, dtype, names in (
            (50, 1024, "rms", HALF, ("gate", "scale", "shift")),
            (41, 1536, "layer", BRAIN, ("bias", "scale", "shift")),
            (41, 1536, "layer", BRAIN, ("bias",)),
            (50, 768, "rms", BRAIN, ("scale",)),
        ):
            yield lambda m=m, w=width, kind=kind, dtype=dtype, names=names, parts=parts: (
                add_norm.fused(
                    torch.randn(m, w, device=device), torch.randn(parts, m, w, device=device),
                    kind=kind, eps=1e-6, dtype=dtype, dependent=True,
                    **{n: vector[n][:w] for n in names},
                )
            )  # fmt: skip
    for parts in (1, 2, 4):
        yield lambda parts=parts: rope_cache.fused(
            torch.randn(parts, 50, 2560, device=device), torch.randn(1, 50, 256, device=device),
            torch.randn(1, 50, 256, device=device), half(1, 1, 866, 256), half(1, 1, 866, 256),
            heads=8, at=816, dependent=True,
        )  # fmt: skip
    for m, n, k, dtype in GATED:
        for tile in GATED_TILES:
            yield lambda m=m, n=n, k=k, dtype=dtype, tile=tile: gated_linear.fused(
                half(m, k, dtype=dtype), half(2 * n, k, dtype=dtype), "gelu_tanh", tile=tile,
                dependent=True,
            )  # fmt: skip


def whole(name: str, device: torch.device) -> None:
    """One pass of a whole model, with what the selector takes unmeasured."""
    if name == "gr00t_n17":
        adapter = synthetic.groot(device, BRAIN)
    elif name == "smolvla":
        adapter = synthetic.smolvla(device, BRAIN)
    else:
        adapter = synthetic.flow(name, device, BRAIN, 48)
    runner = Runner(adapter, device)
    noise = torch.randn(adapter.noise_shape(1), device=device)
    runner.run([Observation({}, np.zeros(0), "")], noise)


def main() -> None:
    worker, workers = int(sys.argv[1]), int(sys.argv[2])
    device = torch.device("cuda")
    failed = 0
    known = Table(device).choices
    models = ("pi05", "gr00t_n17", "smolvla")
    todo = [lambda name=name: whole(name, device) for name in models]
    todo += list(tasks(device, known))
    for i, task in enumerate(todo):
        alone = len(models)  # workers that do one whole model and nothing else
        shared = min(i, worker) >= alone and (i - worker) % (workers - alone) == 0
        if i == worker < alone or shared:
            try:
                task()
                torch.cuda.synchronize()
            except Exception as error:
                failed += 1
                print(f"worker {worker} task {i}: {str(error)[:200]}", flush=True)
    print(f"worker {worker}: done, {failed} failed", flush=True)


if __name__ == "__main__":
    main()
