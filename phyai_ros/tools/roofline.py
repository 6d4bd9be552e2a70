# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros roofline``: does the policy or the robot set the pace, and how much slack is left?"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from phyai_ros.bags.files import is_storage
from phyai_ros.control.roofline import Roofline, Workload, evaluate
from phyai_ros.tools import console, recorded, writing
from phyai_ros.tools.option_types import given_path
from phyai_ros.tools.report import build

_EPILOG = """examples:
  phyai-ros roofline --report runs/today/report.json
  phyai-ros roofline --report runs/a/report.json --report runs/b/report.json --what-if inference=0.5
  phyai-ros roofline --inference-ms 36 --horizon 10 --execution-horizon 10 --rate 20
  phyai-ros roofline --inference-ms 1180 --horizon 32 --execution-horizon 8 --rate 15 \\
      --what-if horizon=18 --what-if inference=0.4,rate=2
--what-if: inference and rate are factors, horizon is rows executed; each adds a line.
exit status: 0 done, 1 a file that was asked for cannot be written, 2 wrong usage
"""
_PICTURE = "roofline.png"
_REPORT_KEYS = {
    "inference": "inference.p50",
    "inference_p99": "inference.p99",
    "horizon": "chunks.horizon",
    "execution_horizon": "chunks.executed",
    "control_rate": "control_rate",
}
_OPTIONS = {
    "inference": "--inference-ms",
    "horizon": "--horizon",
    "execution_horizon": "--execution-horizon",
    "control_rate": "--rate",
}


class RooflineError(ValueError):
    """Numbers that cannot be used; the text says which, found and expected."""


def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 a file that was asked for cannot be written, 2 wrong usage."""
    options = _parser().parse_args(words)
    try:
        loads = [_from_report(path, options) for path in options.report]
        if not loads:
            loads = [_typed(options)]
        changes = [_what_if(text) for text in options.what_if]
        every = [w for load in loads for w in (load, *(_changed(load, c) for c in changes))]
        results = [evaluate(w) for w in every]
    except (ValueError, OSError) as error:
        console.fail(str(error))
        return 2
    _show(results)
    for result in results:
        print(sentence(result))
    whole = True
    if options.json:
        entries = [_plain(asdict(r)) for r in results]
        text = json.dumps(entries, indent=1) + "\n"
        whole = writing.write(
            options.json, lambda path: path.write_text(text, encoding="utf-8"), "--json FILE"
        )
    from phyai_ros.tools import roofline_plot

    asked = options.png is not None
    picture = options.png if asked else Path(_PICTURE)
    drawn = writing.write(picture, partial(roofline_plot.draw, results), "--png FILE", asked=asked)
    if drawn:
        console.say("info", f"written to {picture}")
    return 0 if whole and (drawn or not asked) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="phyai-ros roofline",
        description="A control-time Roofline: executing s rows of a chunk against inferring the "
        "next one. Numbers come from reports of `phyai-ros up`, from bags of `phyai-ros record`, "
        "or are typed in; typed ones take the place of a report's.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--report",
        action="append",
        default=[],
        type=given_path,
        metavar="FILE",
        help="report.json, or a bag",
    )
    add("--name", default="", help="of the typed-in numbers")
    add("--inference-ms", type=float, help="from observation to chunk")
    add("--inference-p99-ms", type=float, help="its 99th percentile")
    add("--transport-ms", type=float, help="sensor to policy and policy to controller, together")
    add("--environment-ms", type=float, help="of one action, where longer than a control period")
    add("--horizon", type=int, help="rows of a chunk")
    add("--execution-horizon", type=int, help="rows executed of it")
    add("--rate", type=float, help="control rate, Hz")
    add("--what-if", action="append", default=[], metavar="CHANGES", help="see the examples")
    add(
        "--png",
        type=given_path,
        help=f"picture; default: {_PICTURE}",
    )
    add("--json", type=given_path, help="the numbers as JSON")
    return parser


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The numbers that were typed in, as Workload's fields."""
    found = {
        "inference": options.inference_ms,
        "inference_p99": options.inference_p99_ms,
        "transport": options.transport_ms,
        "environment": options.environment_ms,
    }
    numbers: dict[str, Any] = {k: v / 1e3 for k, v in found.items() if v is not None}
    whole = {
        "horizon": options.horizon,
        "execution_horizon": options.execution_horizon,
        "control_rate": options.rate,
    }
    return numbers | {k: v for k, v in whole.items() if v is not None}


def _typed(options: argparse.Namespace) -> Workload:
    numbers = _given(options)
    missing = [option for key, option in _OPTIONS.items() if key not in numbers]
    if missing:
        raise RooflineError(f"expected --report, or numbers: {', '.join(missing)} missing")
    return Workload(options.name or "typed in", **numbers)


def _from_report(path: Path, options: argparse.Namespace) -> Workload:
    report = _read(path)
    numbers: dict[str, Any] = {k: _look_up(report, place) for k, place in _REPORT_KEYS.items()}
    waits = [_look_up(report, f"stages.{stage}.p50") for stage in ("wait", "deliver")]
    numbers["transport"] = math.fsum(w for w in waits if w is not None)
    numbers |= _given(options)
    for key, option in _OPTIONS.items():
        if numbers[key] is None:
            raise RooflineError(
                f"{path}: {_REPORT_KEYS[key]} is missing (no chunk was used?); type {option}"
            )
    numbers["horizon"] = round(numbers["horizon"])
    numbers["execution_horizon"] = min(
        max(1, round(numbers["execution_horizon"])), numbers["horizon"]
    )
    name = path.parent.name if path.name == "report.json" else path.stem
    return Workload(name or path.stem, **numbers)


def _read(path: Path) -> Any:
    """A report, or that of a bag."""
    if path.is_dir() or is_storage(path):
        return build(recorded.read(path), {})
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise RooflineError(f"{path}: not JSON: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text file"
        raise RooflineError(f"{path}: cannot be read: {why}") from error


def _look_up(report: Any, place: str) -> float | None:
    for key in place.split("."):
        report = report.get(key) if isinstance(report, Mapping) else None
    return float(report) if isinstance(report, (int, float)) else None


def _what_if(text: str) -> dict[str, float]:
    changes: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        try:
            if key not in ("inference", "horizon", "rate") or not float(value) > 0:
                raise ValueError
            changes[key] = float(value)
        except ValueError:
            raise RooflineError(
                f"--what-if {part!r}: expected inference=FACTOR, rate=FACTOR or horizon=ROWS"
            ) from None
    return changes


def _changed(load: Workload, changes: Mapping[str, float]) -> Workload:
    rows = changes.get("horizon")
    changed = load.scaled(
        changes.get("inference", 1.0),
        None if rows is None else max(1, round(rows)),
        changes.get("rate", 1.0),
    )
    words = [f"{k} {'' if k == 'horizon' else '×'}{v:g}" for k, v in changes.items()]
    return Workload(**{**asdict(changed), "name": f"{load.name}: {', '.join(words)}"})


def sentence(result: Roofline) -> str:
    """The outcome for people, in one line."""
    load = result.workload
    who = "inference-bound" if result.bound == "inference" else "environment-bound"
    text = (
        f"{load.name}: {who}: {load.execution_horizon} rows last {1e3 * result.execution:.0f} ms, "
        f"the next chunk takes {1e3 * result.think:.0f} ms; "
    )
    if result.slack >= 0:
        text += f"{1e3 * result.slack:.0f} ms of slack to the next handoff"
        if result.slack_p99 < 0:  # false where it was not measured
            text += (
                f", but one chunk in a hundred comes {-1e3 * result.slack_p99:.0f} ms late or more"
            )
    else:
        text += f"{-1e3 * result.slack:.0f} ms short at each handoff"
    left, delay = load.horizon - load.execution_horizon, result.delay
    if delay > left:
        text += f"; the delay is {delay} rows and {left} are left of the chunk: the arm waits"
    elif delay > load.execution_horizon:
        text += f"; in effect {delay} rows are executed of each chunk"
    if not result.real_time and delay <= load.horizon - delay:
        text += f"; execute {delay} to {load.horizon - delay}"
    return text


def _show(results: Sequence[Roofline]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    headings: tuple[str, ...] = ("rows executed", "execution ms", "inference ms", "p99")
    headings += ("transport ms", "in turn ms", "overlapped ms", "bound by", "turns at rows")
    headings += ("slack ms", "p99", "actions/s")
    table.add_column("what")
    for heading in headings:
        table.add_column(heading, justify="right")
    for r in results:
        load = r.workload
        table.add_row(
            load.name,
            f"{load.execution_horizon} of {load.horizon}",
            _ms(r.execution),
            _ms(load.inference),
            _ms(load.inference_p99),
            _ms(load.transport),
            _ms(r.sequential),
            _ms(r.overlapped),
            r.bound,
            str(r.boundary),
            _ms(r.slack),
            _ms(r.slack_p99),
            f"{r.rate_overlapped:.1f}",
        )
    console.results(180).print(table)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None or math.isnan(seconds) else f"{1e3 * seconds:.0f}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
