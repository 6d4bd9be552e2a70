# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rows of the engine's benchmark as stacked bars: docs/images/engine_bars.png.

python benchmarks/engine_plot.py [ROWS.jsonl] [--out PNG]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import record

from phyai_ros.tools.plot_style import INK, LINES, STYLE

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STAGES = ("vision", "prefix", "solver")
NAMES = {
    "pi05_48": "pi0.5, 48 tokens",
    "pi05_48_fp8": "pi0.5, 48, FP8",
    "pi05_200": "pi0.5, 200 tokens",
    "pi05_200_fp8": "pi0.5, 200, FP8",
    "pi0_48": "pi0, 48 tokens",
    "pi0_48_fp8": "pi0, 48, FP8",
    "gr00t": "GR00T N1.7",
    "gr00t_fp8": "GR00T N1.7, FP8",
    "smolvla": "SmolVLA",
}


def newest(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """work -> its last row that has times."""
    return {row["work"]: row for row in rows if "work" in row and "p50_ms" in row}


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def draw(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    found = newest(rows)
    works = [w for w in NAMES if w in found]
    plt.rcParams.update(STYLE)
    figure, axes = plt.subplots(figsize=(8, 0.45 * len(works) + 1.2))
    for y, work in enumerate(works):
        row, left = found[work], 0.0
        for i, stage in enumerate(STAGES):
            width = row[f"{stage}_p50_ms"]
            axes.barh(y, width, left=left, color=LINES[i], label=stage if y == 0 else None)
            roof = row.get("roof", {}).get(stage, {}).get("roof_ms")
            if roof is not None:
                axes.barh(y, roof, left=left, height=0.25, color=INK, alpha=0.5,
                          label="at the roof" if y == 0 and i == 0 else None)  # fmt: skip
            left += width
        bound = row.get("wanted", {}).get("p50_ms")
        axes.text(max(left, bound or 0) + 0.1, y, f"{row['p50_ms']:.2f} ms", va="center")
        if bound is not None:
            axes.plot([bound, bound], [y - 0.45, y + 0.45], color=LINES[3],
                      label="wanted" if y == 0 else None)  # fmt: skip
    axes.set_yticks(range(len(works)), [NAMES[w] for w in works])
    axes.invert_yaxis()
    axes.set_xlabel(f"ms, p50, batch 1, {found[works[0]]['gpu']}")
    axes.margins(x=0.12)
    axes.legend(loc="lower right", ncols=2)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    results = record.ROOT / "benchmarks" / "results" / "engine.jsonl"
    parser.add_argument("rows", nargs="?", type=Path, default=results)
    parser.add_argument(
        "--out", type=Path, default=record.ROOT / "docs" / "images" / "engine_bars.png"
    )
    options = parser.parse_args()
    draw(read(options.rows), options.out)
    print(options.out)


if __name__ == "__main__":
    main()
