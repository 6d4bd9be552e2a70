# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""FlashInfer against what serves pi0.5's layers at batch 1: us a launch, errors against float64;
random inputs of six layers take turns.

``python benchmarks/flashinfer_layers.py prefix expert rows``; needs ``pip install
flashinfer-python==0.6.12`` beside the engine, nvcc and a Hopper GPU. What it needs of FlashInfer is
compiled first, a module a process: a minute of 16 cores (``--build NAME`` compiles one alone,
``--built`` measures what there is). Adds a row to benchmarks/results/flashinfer_layers.jsonl; a
refusal stands in place of a time. "all keys": without a mask, which FlashInfer's fa3 does not take.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import flashinfer
import record
import torch
from flashinfer.jit.activation import gen_act_and_mul_module
from flashinfer.jit.attention.modules import gen_batch_prefill_module, gen_single_prefill_module
from flashinfer.jit.norm import gen_norm_module
from prefix_layers import BRAIN, LAYERS, MLP, WIDTH, captured, draw, microseconds

from phyai_ros.engine.kernels import add_norm, attention, gated_activation, prefix_attention
from phyai_ros.engine.kernels.attention import Blocks
from phyai_ros.engine.kernels.cluster_attention import ClusterAttention
from phyai_ros.engine.kernels.fragments import from_fragments, into_fragments

HEADS, D, ROWS, CHUNK = 8, 256, 816, 50
GONE = 16
"""Keys of the prefix that do not exist, its last, where a mask is taken."""
PLAIN = (D, D, 0, False, False, False)
"""Head sizes, no positions, no window, no cap, sums in float32."""
MODULES = {
    "fa2": lambda: gen_single_prefill_module("fa2", BRAIN, BRAIN, BRAIN, *PLAIN),
    "fa3": lambda: gen_single_prefill_module("fa3", BRAIN, BRAIN, BRAIN, *PLAIN),
    "norm": gen_norm_module,
    "activation": lambda: gen_act_and_mul_module("gelu_tanh"),
    "batch": lambda: gen_batch_prefill_module("fa2", BRAIN, BRAIN, BRAIN, torch.int32, *PLAIN),
}


class Launch(NamedTuple):
    """run(i) on the inputs of layer i; read turns what it gives into the rows of ``want``.
    module: of FlashInfer."""

    run: Callable[[int], Any]
    want: torch.Tensor
    read: Callable[[Any], torch.Tensor] = lambda y: y
    module: str = ""


Launches = dict[str, Launch]


class Attention:
    """Queries, keys and values, as they lie in a cache: [1, length, 8, 256] and [1, 1, keys, 256],
    of which 16 in front of ``at`` do not exist."""

    def __init__(self, length: int, keys: int, at: int):
        self.layers = [
            (draw(1, length, HEADS, D), draw(1, 1, keys, D), draw(1, 1, keys, D))
            for _ in range(LAYERS)
        ]
        self.exists = torch.ones(1, keys, dtype=torch.bool, device="cuda")
        self.exists[:, at - GONE : at] = False
        wide = [t.double() for t in self.layers[0]]
        self.want = attention.reference(*wide, exists=self.exists)
        self.whole = attention.reference(*wide)
        # A bit for each query and key, the first the lowest.
        seen = self.exists.expand(length, -1).flatten().to(torch.uint8)
        powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device="cuda")
        filled = torch.nn.functional.pad(seen, (0, -len(seen) % 8)).view(-1, 8)
        self.bits = (filled * powers).sum(1, dtype=torch.uint8)

    def single(self, kind: str, masked: bool) -> Launch:
        given = {"packed_custom_mask": self.bits} if masked else {}

        def run(i: int) -> Any:
            q, *sides = self.layers[i]
            key, value = (t[0].transpose(0, 1) for t in sides)
            return flashinfer.single_prefill_with_kv_cache(q[0], key, value, backend=kind, **given)

        return Launch(run, self.want if masked else self.whole, module=kind)

    def planned(self) -> Launch:
        """Of a batch of one, whose work is planned on the host."""
        (_, length, *_), keys = self.layers[0][0].shape, self.exists.shape[1]
        by: Any = None

        def run(i: int) -> Any:
            nonlocal by
            if by is None:
                space = torch.zeros(1 << 27, dtype=torch.uint8, device="cuda")
                by = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(space, "NHD", backend="fa2")
                ends = (torch.tensor([0, n], dtype=torch.int32) for n in (length, keys))
                # Of one request, whose bits begin at 0.
                by.plan(*ends, HEADS, 1, D, packed_custom_mask=self.bits, q_data_type=BRAIN)
            q, *sides = self.layers[i]
            key, value = (t[0].transpose(0, 1) for t in sides)
            return by.run(q[0], key, value, enable_pdl=True)

        return Launch(run, self.want, module="batch")

    def theirs(self) -> Launches:
        return {
            "fa2, mask": self.single("fa2", True),
            "fa2, all keys": self.single("fa2", False),
            "fa2 planned, mask": self.planned(),
            "fa3, all keys": self.single("fa3", False),
        }


def prefix() -> tuple[str, Launches]:
    of = Attention(ROWS, ROWS, ROWS)
    form = prefix_attention.Form(0, 1)

    def ours(i: int) -> torch.Tensor:
        return prefix_attention.fused(*of.layers[i], exists=of.exists, form=form, dependent=True)

    return f"{ROWS} queries and keys", {"ours": Launch(ours, of.want), **of.theirs()}


def expert() -> tuple[str, Launches]:
    keys = ROWS + CHUNK
    of = Attention(CHUNK, keys, ROWS)
    given = [into_fragments(q[0].flatten(1)) for q, _, _ in of.layers]
    attend = [ClusterAttention(k[0, 0], v[0, 0], at=ROWS, rows=CHUNK) for _, k, v in of.layers]
    out, blocks = torch.empty_like(given[0]), Blocks(128, 64, 14, 2, 8)

    def clusters(i: int) -> torch.Tensor:
        attend[i](given[i], of.exists[0], out=out)
        return out

    def split(i: int) -> torch.Tensor:
        return attention.fused(*of.layers[i], exists=of.exists, blocks=blocks, dependent=True)

    ours = {
        "ours, clusters": Launch(clusters, of.want, lambda y: from_fragments(y, CHUNK)),
        "ours, split": Launch(split, of.want),
    }
    return f"{CHUNK} queries, {keys} keys", ours | of.theirs()


def norm() -> tuple[str, Launches]:
    """Our residual stream is float32, FlashInfer's has the type of the branch."""
    streams = [torch.randn(ROWS, WIDTH, device="cuda") for _ in range(LAYERS)]
    branches = [draw(ROWS, WIDTH) for _ in range(LAYERS)]
    scale = 1 + 0.1 * torch.randn(WIDTH, device="cuda")
    kind: dict[str, Any] = {"kind": "rms", "eps": 1e-6}
    want = add_norm.reference(
        streams[0].double(), branches[0].double(), dtype=torch.float64, scale=scale.double(), **kind
    )  # fmt: skip
    narrow = [s.to(BRAIN, copy=True) for s in streams]
    given, weight = [b.clone() for b in branches], scale.to(BRAIN)

    def ours(i: int) -> torch.Tensor:
        return add_norm.fused(
            streams[i], branches[i], dtype=BRAIN, scale=scale, dependent=True, **kind
        )

    def theirs(i: int) -> torch.Tensor:
        flashinfer.fused_add_rmsnorm(given[i], narrow[i], weight, 1e-6, enable_pdl=True)
        return given[i]

    return f"residual and norm, {ROWS} x {WIDTH}", {
        "ours": Launch(ours, want),
        "16-bit stream": Launch(theirs, want, module="norm"),
    }


def gate() -> tuple[str, Launches]:
    given = [draw(ROWS, 2 * MLP) for _ in range(LAYERS)]
    want = gated_activation.reference(given[0].double(), "gelu_tanh")

    def ours(i: int) -> torch.Tensor:
        return gated_activation.fused(given[i], "gelu_tanh", dependent=True)

    def theirs(i: int) -> Any:
        return flashinfer.gelu_tanh_and_mul(given[i], enable_pdl=True)

    return f"gated activation, {ROWS} x {MLP}", {
        "ours": Launch(ours, want),
        "one pass": Launch(theirs, want, module="activation"),
    }


PARTS = {"prefix": (prefix,), "expert": (expert,), "rows": (norm, gate)}


def build(name: str) -> int:
    spec = MODULES[name]()
    spec.write_ninja()
    command = ["ninja", "-C", str(spec.build_dir), "-f", str(spec.ninja_path)]
    return subprocess.run(command, check=False).returncode


def measured(launches: Launches) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    good = {}
    for name, launch in launches.items():
        if launch.module and not MODULES[launch.module]().jit_library_path.exists():
            found[name] = {"refused": f"{launch.module} is not compiled"}
            continue
        try:
            got = launch.read(launch.run(0)).double().reshape(launch.want.shape)
            captured(launch.run)
        except (RuntimeError, ValueError) as refused:
            found[name] = {"refused": f"{type(refused).__name__}: {refused}"[:300]}
            continue
        found[name] = {"error": float((got - launch.want).norm() / launch.want.norm())}
        good[name] = launch.run
    for name, us in microseconds(good).items():
        found[name]["us"] = us
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--build", choices=MODULES, help="compile this module alone, then end")
    parser.add_argument("--built", action="store_true", help="compile nothing")
    parser.add_argument("--out", type=Path, help="folder of the row; default benchmarks/results")
    options = parser.parse_args()
    if options.build:
        return build(options.build)
    if not options.built:
        command = [sys.executable, __file__, "--build"]
        for process in [subprocess.Popen([*command, name]) for name in MODULES]:
            process.wait()
    torch.manual_seed(0)
    found = {}
    for part in options.parts or PARTS:
        for make in PARTS[part]:
            name, launches = make()
            found[name] = measured(launches)
            print(name, found[name], flush=True)
    values = {
        "gpu": torch.cuda.get_device_name(),
        "what": "us a launch; error: norm of the difference over that of the float64 result",
        "found": found,
    }
    record.save("flashinfer_layers.jsonl", record.row("flashinfer_layers", values), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
