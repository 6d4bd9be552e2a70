# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The pictures of a study: every measure over the delay, one line a handoff method."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from phyai_ros.tools.plot_style import FAINT, STYLE

_CONSTANT = re.compile(r"[\d.]+ ms")
_LOOK = {
    "synchronous": ("#8c98a4", "s"),
    "replace": ("#23303d", "o"),
    "blend": ("#2f9e63", "^"),
    "ensemble": ("#8b6b4e", "v"),
    "rtc_identity": ("#1f6fb2", "D"),
    "rtc_overlap": ("#0f9aa8", "P"),
    "rtc_vjp": ("#7a5bb5", "X"),
    "rtc_trained": ("#b5528f", "*"),
    "seam": ("#e4812a", "h"),
}
_PANELS = (
    ("success", "success, % (bars: 95 % Wilson)", 100.0),
    ("starved_ticks", "starved ticks an episode", 1.0),
    ("blocked_share", "ticks without a fresh action, %", 100.0),
    ("reaction", "reaction time, ms", 1e3),
    ("age_first", "age of the first row used, ms", 1e3),
    ("age_last", "age of the last row used, ms", 1e3),
    ("boundary_jerk", "2nd difference at chunk boundaries, mrad/tick²", 1.0),
    ("interior_jerk", "2nd difference inside chunks, mrad/tick²", 1.0),
    ("jerk_ratio", "boundary / interior", 1.0),
    ("discontinuity", "step at chunk boundaries, mrad", 1.0),
    ("late", "late chunks", 1.0),
    ("dropped", "dropped chunks", 1.0),
)


def draw(result: Mapping[str, Any], directory: Path) -> list[str]:
    """One PNG an execution horizon; the names of the files."""
    names = []
    for horizon in dict.fromkeys(e["horizon"] for e in result["conditions"]):
        entries = [e for e in result["conditions"] if e["horizon"] == horizon]
        name = f"study_s{horizon}.png"
        with plt.rc_context(STYLE):
            _figure(result, entries, horizon, directory / name)
        names.append(name)
    return names


def _figure(
    result: Mapping[str, Any], entries: list[dict[str, Any]], horizon: int, path: Path
) -> None:
    delays = list(dict.fromkeys(e["delay"] for e in entries))
    methods = list(dict.fromkeys(e["handoff"] for e in entries))
    figure, axes = plt.subplots(3, 4, figsize=(17, 11), layout="constrained")
    for axis, (key, title, scale) in zip(axes.flat, _PANELS, strict=True):
        for i, method in enumerate(methods):
            mine = {e["delay"]: e for e in entries if e["handoff"] == method}
            # Side by side, so that equal values do not hide each other.
            shift = 0.06 * (i - (len(methods) - 1) / 2)
            _line(axis, mine, delays, shift, method, key, scale)
        axis.set_title(title, fontsize=10.5, loc="left")
        axis.set_xticks(range(len(delays)), [_short(d) for d in delays])
        # Where all is zero, zero is not lost on an axis of rounding errors.
        axis.set_ylim(0.0, max(axis.get_ylim()[1], 1e-2 if "ratio" in key else 1.0))
        if key == "success":
            axis.set_ylim(-2.0, 104.0)
    for axis in axes[-1]:
        axis.set_xlabel("delay of an answer")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(methods))
    moving = f", block at {100 * result['speed']:g} cm/s" if result["speed"] else ""
    turning = " that turns round" if result["reversing"] else ""
    figure.suptitle(
        f"{result['task']}{moving}{turning}: {result['model']} on {result['robot']}, "
        f"{horizon} rows executed of {result['chunk_horizon']}, "
        f"{result['episodes']} episodes a point",
        fontsize=14,
        x=0.01,
        ha="left",
    )
    figure.savefig(path, dpi=100, facecolor="white")
    plt.close(figure)


def _line(
    axis: Axes,
    entries: Mapping[str, Mapping[str, Any]],
    delays: list[str],
    shift: float,
    method: str,
    key: str,
    scale: float,
) -> None:
    colour, marker = _LOOK.get(method, (FAINT, "."))
    points = [
        (i + shift, scale * e[key], e)
        for i, d in enumerate(delays)
        if (e := entries.get(d)) is not None and e[key] is not None
    ]
    if not points:
        return
    gaps = [i for i, p in enumerate(points) if i and not _CONSTANT.fullmatch(p[2]["delay"])]
    for i in reversed(gaps):  # only constant delays are a scale that a line may follow
        points.insert(i, (math.nan, math.nan, points[i][2]))
    x, y, found = zip(*points, strict=True)
    style: dict[str, Any] = {"color": colour, "marker": marker, "label": method}
    style |= {"lw": 1.4, "ms": 6, "mec": "white", "mew": 0.6, "clip_on": False}
    if key != "success":
        axis.plot(x, y, **style)
        return
    del style["clip_on"]  # the error bars' lines do not know it
    low = [max(0.0, v - scale * e["wilson_95"][0]) for v, e in zip(y, found, strict=True)]
    high = [max(0.0, scale * e["wilson_95"][1] - v) for v, e in zip(y, found, strict=True)]
    axis.errorbar(x, y, yerr=(low, high), elinewidth=0.8, capsize=2, **style)


def _short(label: str) -> str:
    return label.replace(", ", "\n")
