# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Train the small ACT on demonstrations made by ``tools.train.aloha.demonstrations``.

    python -m tools.train.aloha.train --data DIR --out phyai_ros/checkpoints/act_aloha_small

The schedule ends at ``--steps``, ``--minutes`` or ``--until`` (seconds since 1970, for a machine
that is lent until then), whichever comes first. A step is compiled where that is the faster one.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from tools.train.aloha import export
from tools.train.aloha.data import Dataset
from tools.train.aloha.demonstrations import CAMERAS, HORIZON, JOINTS, SIZE
from tools.train.aloha.policy import Sample, Trainee
from tools.train.train import learning_rate


def random_batch(size: int, device: torch.device) -> Sample:
    """Of the right shapes: to compile on, and to size the lazy layer."""
    shape = (size, len(CAMERAS), 3, *SIZE)
    return Sample(
        torch.randint(0, 256, shape, device=device, dtype=torch.uint8),
        torch.randn(size, JOINTS, device=device),
        torch.randn(size, HORIZON, JOINTS, device=device),
        torch.randn(size, 2, device=device),
    )


def settle(model: Trainee, data: Dataset, batches: int, size: int) -> None:
    """Batch norm statistics anew, for the averaged weights."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    model.train()
    with torch.no_grad():
        for _ in range(batches):
            model(data.batch(size))
    model.eval()


def _now(device: torch.device) -> float:
    """When everything that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic()


def train(args: argparse.Namespace) -> None:
    started = time.monotonic()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = torch.device(args.device)
    model = Trainee().to(device)
    with torch.no_grad():
        model(random_batch(2, device))
    model.policy.backbone.to(memory_format=torch.channels_last)
    if args.resume:
        model.load_state_dict(torch.load(args.resume, weights_only=True, map_location=device))
    parameters = list(model.parameters())
    average = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.AdamW(
        parameters, lr=0.0, betas=(0.9, 0.98), weight_decay=0.02, fused=device.type == "cuda"
    )

    def losses(batch: Sample) -> dict[str, torch.Tensor]:
        with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
            return model(batch)

    def step(
        forward: Callable[[Sample], dict[str, torch.Tensor]],
        batch: Sample,
        rate: float,
        decay: float,
    ) -> dict[str, torch.Tensor]:
        for group in optimizer.param_groups:
            group["lr"] = rate
        parts = forward(batch)
        torch.stack(list(parts.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch._foreach_lerp_(average, [p.detach() for p in parameters], 1 - decay)
        return {k: v.detach() for k, v in parts.items()}

    def seconds(forward: Callable[[Sample], dict[str, torch.Tensor]]) -> float:
        """Of a step, once it is warm."""
        batch = random_batch(args.batch, device)
        for _ in range(3):
            step(forward, batch, 0.0, 1.0)
        before = _now(device)
        for _ in range(5):
            step(forward, batch, 0.0, 1.0)
        return (_now(device) - before) / 5

    # While the demonstrations are still being rendered.
    choices = (
        {"eager": losses} if args.eager else {"eager": losses, "compiled": torch.compile(losses)}
    )
    took: dict[str, float] = {}
    for name, forward in choices.items():
        took[name] = seconds(forward)
        print(f"{name}: {took[name]:.4f} s a step, {time.monotonic() - started:.0f} s", flush=True)
    forward = choices[min(took, key=took.__getitem__)]
    optimizer.state.clear()  # of made-up data
    if args.wait:
        while not (args.data / "meta.json").is_file():
            time.sleep(0.5)
    data = Dataset(args.data, device)
    print(f"{len(data)} samples, {time.monotonic() - started:.0f} s", flush=True)

    began, progress, number, shown = time.monotonic(), 0.0, 0, 0.0
    left = args.until - time.time() if args.until else math.inf
    budget = max(1.0, min(60 * args.minutes, left))
    sums: dict[str, torch.Tensor] = {}
    counted = 0
    while progress < 1.0:
        decay = min(args.ema, (1 + number) / (10 + number))
        parts = step(forward, data.batch(args.batch), learning_rate(progress, args.rate), decay)
        number, counted = number + 1, counted + 1
        for name, value in parts.items():
            sums[name] = sums.get(name, 0) + value
        if number % 20 == 0:
            float(sums["l1"])  # waits, so that the clock below tells the truth
        elapsed = time.monotonic() - began
        progress = max(number / args.steps, elapsed / budget)
        if elapsed - shown > 10 or progress >= 1.0:
            shown = elapsed
            text = " ".join(f"{k} {float(v) / counted:.5f}" for k, v in sums.items())
            print(f"step {number} {elapsed:.0f} s {number / elapsed:.1f}/s {text}", flush=True)
            sums, counted = {}, 0
    with torch.no_grad():
        for p, a in zip(parameters, average, strict=True):
            p.copy_(a)
    settle(model, data, 40, args.batch)
    if args.state:
        torch.save(model.state_dict(), args.state)
    export.write(model, data, args.out)
    report = {
        "family": "act",
        "steps": number,
        "batch": args.batch,
        "seed": args.seed,
        "samples": len(data),
        "seconds": round(time.monotonic() - began, 1),
        "error_rad": data.errors(model.predict),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
    }
    print(json.dumps(report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of demonstrations")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint directory to write")
    parser.add_argument("--wait", action="store_true", help="until the demonstrations are made")
    parser.add_argument("--state", type=Path, help="where to keep float32 weights for --resume")
    parser.add_argument("--resume", type=Path, help="float32 weights of an earlier run")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="end the schedule here at last")
    parser.add_argument("--until", type=float, default=0.0, help="time.time() to end it at")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=1e-3, help="peak learning rate")
    parser.add_argument("--ema", type=float, default=0.998)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="no torch.compile")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
