# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/performance.md from the rows of benchmarks/results.

    python scripts/performance_doc.py [--check]

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; the text around is by hand.
Each takes the newest row of a work. --check: exit with 1 where the file is not what it would be.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
STAGES = ("vision", "prefix", "solver")
Row = Mapping[str, Any]
WORKS = {
    "pi05_48": "pi0.5, 3 views, 50 x 32, 10 steps, 48 tokens",
    "pi05_48_fp8": "the same, FP8",
    "pi05_200": "pi0.5, 200 tokens",
    "pi05_200_fp8": "the same, FP8",
    "pi0_48": "pi0, 3 views, 48 tokens",
    "pi0_48_fp8": "the same, FP8",
    "gr00t": "GR00T N1.7, 2 views of 256 x 256, 40 x 132, 4 steps",
    "gr00t_fp8": "the same, FP8",
    "smolvla": "SmolVLA, 3 cameras of 512 x 512, 50 actions, 10 steps",
    "pi05_48_b32": "pi0.5, 48 tokens, 32 requests at once",
    "pi05_48_b32_fp8": "the same, FP8",
}
FAMILIES = {"pi05": "pi0.5", "gr00t": "GR00T N1.7", "smolvla": "SmolVLA"}


def read(name: str) -> list[Row]:
    file = RESULTS / name
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def newest(rows: Iterable[Row], key: str, having: str) -> dict[str, Row]:
    return {row[key]: row for row in rows if key in row and having in row}


def where() -> list[str]:
    """Time by stage, against what is wanted and against the reference path."""
    lines = [
        "| work | vision | prefix | solver | p50 | p99 | wanted | reference, eager | compiled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = newest(read("engine.jsonl"), "work", "p50_ms")
    compiles = newest(read("engine.jsonl"), "work", "torch_compile_captured_ms")
    for work, text in WORKS.items():
        row = rows.get(work)
        if row is None:
            lines.append(f"| {text} | | | | not measured | | | | |")
            continue
        stages = " | ".join(f"{row[f'{s}_p50_ms']:.2f}" for s in STAGES)
        bound = row["wanted"]["p50_ms"] if "p50_ms" in row.get("wanted", {}) else None
        kept = "" if bound is None else f"{bound:g}, {_kept(row['p50_ms'] <= bound)}"
        compiled = compiles.get(work, {}).get("torch_compile_captured_ms")
        lines.append(
            f"| {text} | {stages} | **{row['p50_ms']:.2f}** | {row['p99_ms']:.2f} | {kept} "
            f"| {row['eager_ms']:.1f} | {'' if compiled is None else f'{compiled:.1f}'} |"
        )
    return lines


def roofs() -> list[str]:
    """The time that each stage would take at the roof, what bounds it, and the share reached."""
    lines = ["| work | vision | prefix | solver |", "|---|---|---|---|"]
    rows = newest(read("engine.jsonl"), "work", "roof")
    for work, text in WORKS.items():
        if work in rows:
            cells = [
                f"{found['roof_ms']:.2f} ms ({found['bound']}), {100 * found['reached']:.0f} %"
                for found in rows[work]["roof"].values()
            ]
            lines.append(f"| {text} | {' | '.join(cells)} |")
    return lines


def whole() -> list[str]:
    """What is not the model's own time."""
    lines = ["| pi0.5, batch 1 | found | wanted |", "|---|---|---|"]
    rows = read("engine.jsonl")
    request = newest(rows, "work", "ordinary_memory").get("request")
    if request is not None:
        lines += [
            "| three 480 x 640 images in frames on the host to robot units there, without the "
            f"model, p50 | {request['outside_model_p50_ms']:.2f} ms | 0.6 ms, "
            f"{_kept(request['outside_model_p50_ms'] <= 0.6)} |",
            f"| the same from images in ordinary memory "
            f"| {request['ordinary_memory']['outside_model_p50_ms']:.2f} ms | |",
            f"| p99 / p50 of {request.get('requests', request.get('runs'))} whole requests "
            f"| {request['p99_over_p50']:.3f} | 1.03, {_kept(request['p99_over_p50'] <= 1.03)} |",
        ]
    loaded = newest(read("full_size.jsonl"), "family", "fp8_memory_GB").get("pi05")
    if loaded is not None:
        found, buckets = loaded["configure_s"], loaded["buckets"]
        lines.append(
            f"| loaded from local shards and {buckets} buckets captured | {found:.1f} s "
            f"| 30 s, {_kept(found <= 30)} |"
        )
        for key, text, most in (("memory_GB", "16 bit", 9), ("fp8_memory_GB", "FP8", 6)):
            lines.append(
                f"| device memory, {text}, {buckets} buckets captured | {loaded[key]:.2f} GB "
                f"| {most} GB, {_kept(loaded[key] <= most)} |"
            )
    return lines


def loading() -> list[str]:
    """The published sizes from shards."""
    lines = [
        "| family | parameters | shards | load, s a GB | host memory beyond the model (allowed) "
        "| capture of buckets | load and capture |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = newest(read("full_size.jsonl"), "family", "configure_s")
    for family, text in FAMILIES.items():
        row = rows.get(family)
        if row is None:
            lines.append(f"| {text} | | | not measured | | | |")
            continue
        place = f", on {row['device']['cores']} CPU cores" if " on cpu;" in row["what"] else ""
        buckets = f"{row['buckets']} in {row['warm_again_s']:.1f} s" if row["buckets"] else "none"
        lines.append(
            f"| {text}{place} | {row['parameters'] / 1e9:.2f} B | {row['shards']} "
            f"| {row['s_per_gb_again']:.2f} | {row['host_beyond_model_gb']:.2f} "
            f"({row['wanted']['host_beyond_model_gb']:.2f}) GB "
            f"| {buckets} | {row['configure_s']:.1f} s |"
        )
    return lines


def _kept(kept: bool) -> str:
    return "kept" if kept else "not reached"


TABLES: Mapping[str, Callable[[], list[str]]] = {
    "where": where,
    "roofs": roofs,
    "whole": whole,
    "loading": loading,
}


def filled(text: str) -> str:
    def table(found: re.Match[str]) -> str:
        return "\n".join([found[1], *TABLES[found[2]](), found[3]])

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)", table, text, flags=re.DOTALL)


def main() -> int:
    text = FILE.read_text(encoding="utf-8")
    new = filled(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            print("docs/performance.md is not what its rows say: python scripts/performance_doc.py")
        return int(new != text)
    FILE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
