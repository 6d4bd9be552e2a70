# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The engine on a CUDA GPU: published sizes, random weights, batch 1 unless said.

Per work: p50, p99 and least of vision, prefix and solver by events inside one run; the same through
the reference path, eager; how near each stage comes to the device's roof; how far the answers are
from the reference's. The work 'request' is a whole request of pi0.5 from raw images on the host to
robot units there. Loading, capture and memory are full_size.py's, torch.compile of the reference
path engine_compiled.py's. Adds rows to benchmarks/results/engine.jsonl, draws them, and exits with
1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import engine_model
import engine_request
import engine_roofs
import record
import torch

from phyai_ros.engine.layers.tune import Table

OTHER = ("request",)
WORKS = (*engine_model.WORKS, *OTHER)
STARTED = time.perf_counter()


def say(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:6.1f} s] {text}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--work", default=",".join(WORKS), help="comma separated; default: %(default)s")
    add("--runs", type=int, default=60, help="timed requests of a work")
    add("--long", type=int, default=0, help="and as many for p99 / p50")
    add("--requests", type=int, default=1000, help="of the work 'request'")
    add("--wide", action="store_true", help="the error against float32, too")
    add("--profile", action="store_true", help="kernels by time")
    add("--refine", action="store_true", help="choose operators in the model first")
    add("--no-dependent", action="store_true", help="and without early launches")
    add("--compile-workers", type=int, default=0, help="compile kernels in parallel first")
    add("--budget", type=float, default=1e9, help="begin no work after so many seconds")
    add("--out", type=Path, help="folder for rows, operators and profiles; default: results/")
    options = parser.parse_args()
    unknown = [w for w in options.work.split(",") if w not in WORKS]
    if unknown:
        parser.error(f"no work {', '.join(unknown)}; there are: {', '.join(WORKS)}")
    if not torch.cuda.is_available():
        parser.error("this benchmark needs a CUDA device; torch sees none here")
    return options


def main() -> int:
    options = parse()
    device = torch.device("cuda")
    if options.compile_workers:
        precompile(options.compile_workers)
    roofs = engine_roofs.measure(device)
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {roofs}")
    rows, tables = [], {}
    for work in options.work.split(","):
        if time.perf_counter() - STARTED > options.budget:
            say(f"{work}: no time left")
            rows.append({"work": work, "passed": False})
            continue
        row, table = one(work, device, options, roofs)
        torch.cuda.empty_cache()
        tables |= table
        entry = record.row("engine", {**row, "gpu": torch.cuda.get_device_name(), **roofs})
        rows.append(entry)
        record.save("engine.jsonl", entry, options.out)
    if options.out:
        (options.out / "operators.json").write_text(json.dumps(tables, indent=1))
        choices = json.dumps(Table(device).choices, indent=1, sort_keys=True)
        (options.out / "choices.json").write_text(choices + "\n")
    elif any("p50_ms" in row for row in rows):
        import engine_plot  # matplotlib is not needed before

        results = record.ROOT / "benchmarks" / "results" / "engine.jsonl"
        engine_plot.draw(engine_plot.read(results), record.ROOT / "docs/images/engine_bars.png")
    for row in rows:
        say(line(row))
    print(json.dumps(rows[-1]))
    return 0 if all(row["passed"] for row in rows) else 1


def one(
    work: str, device: torch.device, options: Any, roofs: dict[str, float]
) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        if work == "request":
            return engine_request.run(device, options.requests), {}
        return engine_model.run(work, device, options, roofs, say)
    except Exception as error:
        traceback.print_exc()
        return {"work": work, "error": str(error)[:500], "passed": False}, {}


def line(row: dict[str, Any]) -> str:
    """A row's outcome, for the end of the log."""
    found = [f"{name} {row.get(name)} (wanted {bound})" for name, bound in row["wanted"].items()] \
        if "wanted" in row else [str(row.get("error", "not run"))]  # fmt: skip
    return f"{'kept' if row['passed'] else 'NOT KEPT'}: {row['work']}: {', '.join(found)}"


def precompile(workers: int) -> None:
    script = Path(__file__).parent / "engine_compile.py"
    children = [
        subprocess.Popen([sys.executable, str(script), str(i), str(workers)])
        for i in range(workers)
    ]
    for child in children:
        child.wait(timeout=120)
    say("kernels compiled")


if __name__ == "__main__":
    sys.exit(main())
