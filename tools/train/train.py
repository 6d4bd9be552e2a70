# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Train one small checkpoint on demonstrations made by ``tools.train.demonstrations``.

    python -m tools.train.train --family gr00t --data DIR --out DIR

All data lie in the device's memory as uint8; a step draws its batch by index. The schedule ends at
``--steps`` or at ``--minutes``, whichever comes first, and the learning rate follows that progress.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from tools.train import export_pi05, families
from tools.train.batch import Batch
from tools.train.dataset import Dataset, wait_for
from tools.train.pi05 import Pi05Trainee

WINDOW = 50
"""Steps between looks at the loss."""


def learning_rate(progress: float, peak: float, warm_up: float = 0.03) -> float:
    """Linear warm-up, then a cosine to one hundredth of the peak; progress in [0, 1]."""
    if progress < warm_up:
        return peak * progress / warm_up
    x = min(1.0, (progress - warm_up) / (1 - warm_up))
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * x)))


class Guard:
    """Goes back to the last good average when the loss blows up, and halves the rate.

    Attention logits without normalisation diverge now and then in bfloat16; an hour of work should
    not hang on that.
    """

    def __init__(self, parameters: Sequence[Tensor], average: list[Tensor]) -> None:
        self._parameters, self._average = [p.detach() for p in parameters], average
        self._saved = [a.clone() for a in average]
        self._best = math.inf
        self.scale = 1.0

    def look(self, loss: float) -> bool:
        """loss: mean since the last look. True where the weights were set back."""
        if loss < 1.5 * self._best:
            self._best = min(self._best, loss)
            torch._foreach_copy_(self._saved, self._average)
            return False
        if loss < 3 * self._best:
            return False
        print(f"loss {loss:.5f} after {self._best:.5f}: back to the last good weights", flush=True)
        torch._foreach_copy_(self._parameters, self._saved)
        torch._foreach_copy_(self._average, self._saved)
        self.scale /= 2
        return True


def make_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, average: list[Tensor], compiled: bool
) -> Callable[[Batch, float, float], dict[str, Tensor]]:
    parameters = [p for p in model.parameters() if p.requires_grad]

    def losses(batch: Batch) -> dict[str, Tensor]:
        with torch.autocast("cuda", torch.bfloat16, enabled=batch.images.is_cuda):
            return model(batch)

    forward = torch.compile(losses) if compiled else losses

    def step(batch: Batch, rate: float, decay: float) -> dict[str, Tensor]:
        for group in optimizer.param_groups:
            group["lr"] = rate
        parts = forward(batch)
        torch.stack(list(parts.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch._foreach_lerp_(average, [p.detach() for p in parameters], 1 - decay)
        return {k: v.detach() for k, v in parts.items()}

    return step


def train(args: argparse.Namespace) -> None:
    started = time.monotonic()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device(args.device)
    family = families.make(args.family)
    model = family.build().to(device)
    if args.resume:
        families.load_state(model, args.resume)
    if args.expert_only:
        if not (args.resume and isinstance(model, Pi05Trainee)):
            raise SystemExit("--expert-only: goes on from a pi0.5 checkpoint; expected --resume")
        model.freeze_view()
        family.keep(*export_pi05.ranges(args.resume))
    parameters = [p for p in model.parameters() if p.requires_grad]
    average = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=0.0,
        betas=(0.9, 0.98),
        eps=1e-8,
        weight_decay=args.weight_decay,
        fused=device.type == "cuda",
    )
    step = make_step(model, optimizer, average, compiled=not args.eager)
    if device.type == "cuda":  # compile while the demonstrations are still being rendered
        for _ in range(3):
            step(family.random_batch(args.batch, device), 0.0, 1.0)
        torch.cuda.synchronize()
        print(f"{args.family}: ready after {time.monotonic() - started:.0f} s", flush=True)
    wait_for(args.data)
    data = Dataset(args.data, family, device)
    print(f"{args.family}: {len(data)} samples, {time.monotonic() - started:.0f} s", flush=True)

    began, progress, number, shown = time.monotonic(), 0.0, 0, 0.0
    sums: dict[str, Tensor] = {}
    counted = 0
    guard = Guard(parameters, average)
    while progress < 1.0:
        rate = learning_rate(progress, args.rate) * guard.scale
        parts = step(data.batch(args.batch), rate, min(args.ema, (1 + number) / (10 + number)))
        number, counted = number + 1, counted + 1
        for name, value in parts.items():
            sums[name] = sums.get(name, 0) + value
        elapsed = time.monotonic() - began
        progress = max(number / args.steps, elapsed / (60 * args.minutes))
        if number % WINDOW == 0 and guard.look(float(sums["flow"]) / counted):
            optimizer.state.clear()
            sums, counted = {}, 0
        if counted and ((number % WINDOW == 0 and elapsed - shown > 10) or progress >= 1.0):
            shown = elapsed
            text = " ".join(f"{k} {float(v) / counted:.5f}" for k, v in sums.items())
            print(
                f"{args.family} step {number} {elapsed:.0f} s {number / elapsed:.1f}/s "
                f"rate {rate:.1e} {text}",
                flush=True,
            )
            sums, counted = {}, 0
    with torch.no_grad():
        for p, a in zip(parameters, average, strict=True):
            p.copy_(a)
    families.save_state(model, args.state or args.out)
    model.eval()
    report = {
        "family": args.family,
        "steps": number,
        "batch": args.batch,
        "seed": args.seed,
        "samples": len(data),
        "seconds": round(time.monotonic() - began, 1),
        "error_rad": data.errors(model),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
    }
    family.export(model, data, Path(args.out))
    print(json.dumps(report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--family", choices=families.NAMES, required=True)
    parser.add_argument("--data", type=Path, required=True, help="directory of demonstrations")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint directory to write")
    parser.add_argument("--state", type=Path, help="where to keep float32 weights for --resume")
    parser.add_argument("--resume", type=Path, help="float32 weights of an earlier run")
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--minutes", type=float, default=60.0, help="end the schedule here at last")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=5e-4, help="peak learning rate")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--ema", type=float, default=0.999)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--expert-only", action="store_true", help="pi0.5: go on with its action expert alone"
    )
    parser.add_argument("--eager", action="store_true", help="no torch.compile")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
