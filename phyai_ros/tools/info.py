# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros info``: what a checkpoint is."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from phyai_ros.control.words import counted
from phyai_ros.engine.types import FeatureSpec, PolicyError, PolicySpec
from phyai_ros.robots.trained import RANGES
from phyai_ros.tools import console, policy_options
from phyai_ros.tools.describe import Described, as_json, describe

_EPILOG = """examples:
  phyai-ros info --checkpoint gr00t_ur10e_small
  phyai-ros info --checkpoint lerobot/smolvla_base --revision main
  phyai-ros info --checkpoint path/to/checkpoint --json

The weights are not loaded; their names and shapes are checked.
exit status: 0 a checkpoint that can be used, 1 one that cannot, 2 wrong usage
"""
_OVER_ROWS = {name: pick for low, high in RANGES for name, pick in ((low, np.min), (high, np.max))}
_MOST_ROWS = 400


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="phyai-ros info",
        description="Say what a checkpoint is: family, cameras, state and action, rate, size.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    policy_options.add_checkpoint(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(words))
    try:
        found = describe(
            policy_options.checkpoint(options),
            family=options.family,
            embodiment=options.embodiment,
            revision=options.revision,
        )
    except PolicyError as error:
        console.fail(policy_options.said(error))
        return 1
    if options.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        show(found, console.results(160))
    return 0


def show(found: Described, out: Console) -> None:
    """For people."""
    weights = ", ".join(f"{_size(n)} in {name}" for name, n in found.memory.items())
    stored = ", ".join(f"{n / 1e6:.3g} M values {dtype}" for dtype, n in found.stored.items())
    first = found.specs[0]
    for label, value in (
        ("checkpoint", str(found.checkpoint.root)),
        ("family", first.family),
        ("weight files", f"{_size(found.checkpoint.nbytes)}: {stored}"),
        ("memory", f"{weights} for the weights, a request's own tensors on top"),
        ("prompt", _prompt(first)),
        ("guidance", ", ".join(first.guidance_methods) or "none"),
    ):
        out.print(f"{label:<14}{value}")
    for spec in found.specs:
        _show_spec(spec, out)


def _show_spec(spec: PolicySpec, out: Console) -> None:
    if spec.embodiment:
        out.print(f"\nembodiment {spec.embodiment}", style="bold")
    rate = f"{1 / spec.step:g} Hz" if spec.step else "not said by the checkpoint"
    history = f", with {counted(spec.history, 'earlier observation')}" if spec.history else ""
    rows = counted(spec.horizon, "row")
    out.print(f"\n{rows} a chunk; rate {rate}; {_passes(spec)}{history}")
    cameras = _table("cameras, in order", "key", "image", "")
    for key in spec.cameras:
        cameras.add_row(
            key,
            _image(spec, key),
            "may be absent" if key in spec.optional_cameras else "",
        )
    out.print(cameras)
    for title, features in (("state", spec.state), ("action", spec.action)):
        table = _table(title, "column", "normalisation", "low", "high", "mean", "std", "")
        for row in list(_columns(features))[:_MOST_ROWS]:
            table.add_row(*row)
        out.print(table)


def _image(spec: PolicySpec, camera: str) -> str:
    height, width = spec.fitting_size(camera, (1, 1))
    if camera in spec.camera_sizes:
        return f"{height} x {width} (height x width), no other"
    least = camera in spec.least_sizes
    return f"at least {height} x {width} (height x width)" if least else "any size"


def _columns(features: Sequence[FeatureSpec]) -> Iterator[tuple[str, ...]]:
    for feature in features:
        for i in range(feature.size):
            name = feature.name if feature.size == 1 else f"{feature.name}.{i}"
            statistics = _of_column(feature.statistics, i)
            low, high = next(
                ((statistics[a], statistics[b]) for a, b in RANGES if {a, b} <= set(statistics)),
                (math.nan, math.nan),
            )
            numbers = (low, high, *(statistics.get(k, math.nan) for k in ("mean", "std")))
            yield (
                name,
                feature.normalisation,
                *("" if math.isnan(n) else f"{n:.4g}" for n in numbers),
                "relative to state" if feature.relative else "",
            )


def _of_column(statistics: Mapping[str, np.ndarray], column: int) -> dict[str, float]:
    """Statistics of one column; those given row by row are taken over all rows."""
    found = {}
    for name, value in statistics.items():
        rows = np.atleast_2d(np.asarray(value, np.float64))
        if column < rows.shape[-1]:
            pick = _OVER_ROWS.get(name, np.mean)
            found[name] = float(pick(rows[..., column]))
    return found


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        number = heading in ("low", "high", "mean", "std")
        table.add_column(heading, justify="right" if number else "left", no_wrap=bool(heading))
    return table


def _passes(spec: PolicySpec) -> str:
    """A network that answers at once, as ACT's, denoises nothing."""
    steps = spec.denoising_steps
    return f"{steps} denoising steps" if steps > 1 else "one pass of the network"


def _prompt(spec: PolicySpec) -> str:
    if "instruction" in spec.ignores:
        return "the policy takes no instruction"
    return f"at most {spec.max_prompt_tokens} tokens" if spec.max_prompt_tokens else "no limit"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
