# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The picture of a control-time Roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from phyai_ros.control.roofline import Roofline, curve
from phyai_ros.tools.plot_style import FAINT, INK, LINES, STYLE


def draw(results: Sequence[Roofline], path: Path) -> None:
    """Left: execution against thinking, and the line where the bound turns. Right: time of a
    handoff cycle over the rows executed. Raises OSError where ``path`` cannot be written, or its
    name ends as that of no picture."""
    with plt.rc_context(STYLE):
        figure, (plane, cycle) = plt.subplots(1, 2, figsize=(15, 6.4), layout="constrained")
        _plane(plane, results)
        _cycle(cycle, results)
        handles, labels = plane.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(results), 3))
        try:
            known = figure.canvas.get_supported_filetypes()
            if path.suffix[1:].lower() not in known:
                names = ", ".join(known)
                raise OSError(f"expected a name ending in one of {names}, found {path.name!r}")
            figure.savefig(path, dpi=100, facecolor="white")
        finally:
            plt.close(figure)


def _plane(axis: Axes, results: Sequence[Roofline]) -> None:
    times = [1e3 * t for r in results for t in (r.execution, r.think) if t > 0]
    times += [1e3 * (r.workload.inference_p99 or 0) + 1e3 * r.workload.transport for r in results]
    low, high = 0.5 * min(t for t in times if t > 0), 2.0 * max(times)
    line = np.array([low, high])
    axis.fill_between(line, line, high, color="#f6dfd9", alpha=0.6, lw=0)
    axis.fill_between(line, low, line, color="#ddeee4", alpha=0.6, lw=0)
    axis.plot(line, line, color=INK, lw=1.6)
    note: dict[str, Any] = {"transform": axis.transAxes, "color": "#5d6a76", "fontsize": 11}
    axis.text(0.03, 0.95, "inference-bound: the arm waits", va="top", **note)
    axis.text(0.97, 0.05, "environment-bound: the policy waits", ha="right", **note)
    for i, r in enumerate(results):
        colour = LINES[i % len(LINES)]
        x, y = 1e3 * r.execution, 1e3 * r.think
        whole = [1e3 * n * r.workload.action for n in (1, r.workload.horizon)]
        axis.plot(whole, [y, y], color=colour, lw=1.0, ls=":")
        p99 = r.workload.inference_p99
        up = 0.0 if p99 is None else max(0.0, 1e3 * (p99 + r.workload.transport) - y)
        axis.errorbar(
            [x],
            [y],
            yerr=[[0.0], [up]],
            fmt="o",
            ms=8,
            mec="white",
            color=colour,
            capsize=4,
            label=f"{r.workload.name}: slack {1e3 * r.slack:.0f} ms",
        )
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(FuncFormatter(_some))
    axis.set_xlabel("executed rows × time of a row, ms (dotted: from one row to the whole chunk)")
    axis.set_ylabel("inference and transport, ms (whisker: p99)")


def _some(value: float, place: int) -> str:
    """Labels of 2 and 5 between the powers of ten."""
    first = f"{value:.0e}"[0]
    return f"{value:g}" if first in "25" else ""


def _cycle(axis: Axes, results: Sequence[Roofline]) -> None:
    for i, r in enumerate(results):
        colour = LINES[i % len(LINES)]
        points = curve(r.workload)
        rows = [p.workload.execution_horizon for p in points]
        axis.plot(rows, [1e3 * p.overlapped for p in points], color=colour, lw=2.0)
        axis.plot(rows, [1e3 * p.sequential for p in points], color=colour, lw=1.0, ls="--")
        axis.plot(
            [r.workload.execution_horizon],
            [1e3 * r.overlapped],
            "o",
            color=colour,
            ms=8,
            mec="white",
        )
        if r.boundary <= r.workload.horizon:
            axis.axvline(r.boundary, color=colour, lw=0.8, ls=":")
    axis.set_ylim(bottom=0.0)
    axis.set_xlabel("rows executed of a chunk (dotted: from here on the environment is the bound)")
    axis.set_ylabel("time of a handoff cycle, ms")
    axis.plot([], [], color=FAINT, lw=2.0, label="overlapped: the greater")
    axis.plot([], [], color=FAINT, lw=1.0, ls="--", label="in turn: the sum")
    axis.legend(loc="upper left")
