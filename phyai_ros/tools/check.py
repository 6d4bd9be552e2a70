# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros check``: is this checkpoint loaded, bound and computed as it should be?"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phyai_ros import robots
from phyai_ros.engine.policy import DTYPES, Policy, load_policy
from phyai_ros.engine.runner import SELECTORS
from phyai_ros.engine.types import PolicyError
from phyai_ros.tools import (
    check_binding,
    check_inputs,
    check_rows,
    console,
    policy_options,
    writing,
)
from phyai_ros.tools.check_rows import Row
from phyai_ros.tools.option_types import given, given_path

_EPILOG = """examples:
  phyai-ros check --checkpoint gr00t_ur10e_small --robot ur10e
  phyai-ros check --checkpoint path/to/checkpoint --fixture path/to/fixture
  phyai-ros check --checkpoint path/to/checkpoint --device cuda --precision bfloat16

Loads the checkpoint strictly, binds it to the robot, runs fixed inputs on the reference path
(nothing cached, one request at a time) and on every other path at every batch size, then changes
image, state, instruction and statistics one at a time: each must change the actions.
exit status: 0 all well, 1 a breach, a checkpoint that cannot be used or a --json FILE that cannot
be written, 2 wrong usage
"""
_FILE = "check.json"


def main(words: Sequence[str]) -> int:
    options = _parse(words)
    rows: list[Row] = []
    refusal: Row | None = None
    try:
        for row in _rows(options):
            rows.append(row)
            if console.interactive():
                console.say("info", f"{'ok' if row.passed else 'FAILED'}: {row.check} {row.detail}")
    except (PolicyError, robots.RobotError) as error:
        refusal = Row("usable", "", False, note=policy_options.said(error))
    every = [*rows, refusal] if refusal else rows
    text = json.dumps(_result(options, every), indent=2)
    if options.json == "-":
        print(text)
    elif rows:
        _show(rows, console.results(160))
    if refusal:  # a row for programs alone: people read it once, below what was checked before
        console.fail(refusal.note)
    failed = sum(not row.passed for row in every)
    console.say("info" if not failed else "error", f"checks: {len(every)}, failed: {failed}")
    if options.json == "-":
        return 1 if failed else 0
    asked = options.json is not None
    file = Path(options.json if asked else _FILE)
    written = writing.write(file, lambda p: p.write_text(text + "\n"), "--json FILE", asked=asked)
    return 1 if failed or (asked and not written) else 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phyai-ros check",
        description="Check a checkpoint: loading, robot, exactness, what changes the actions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    policy_options.add_checkpoint(parser)
    parser.add_argument(
        "--robot", type=given, metavar="YAML", help="bind it to this robot (name or file)"
    )
    parser.add_argument(
        "--model",
        type=given,
        metavar="YAML",
        help="its YAML, for the binding; default: the one in config/models for both",
    )
    parser.add_argument(
        "--fixture", type=given_path, metavar="DIR", help="recorded requests to answer"
    )
    parser.add_argument("--precision", choices=sorted(DTYPES), default="float32")
    parser.add_argument(
        "--selector",
        choices=SELECTORS,
        default="auto",
        help="reference: plain torch alone, nothing fused or captured (%(default)s)",
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N (%(default)s)")
    parser.add_argument(
        "--batch", type=_batches, default=(1, 8, 32), metavar="N,N", help="batch sizes (1,8,32)"
    )
    parser.add_argument(
        "--json",
        type=given,
        metavar="FILE",
        help=f"result file ({_FILE}); - prints it",
    )
    options = parser.parse_args(list(words))
    if options.model is not None and options.robot is None:
        parser.error("--model is bound to a robot: give --robot too")
    return options


def _batches(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(word) for word in text.split(","))
    except ValueError:
        sizes = (0,)
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected whole numbers from 1, as 1,8, found {text!r}")
    return sizes


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    name = policy_options.checkpoint(options)
    torch.manual_seed(0)

    def load(where: str | Path, embodiment: str | None, precision: str) -> Policy:
        return load_policy(
            where,
            family=options.family,
            embodiment=embodiment,
            device=options.device,
            dtype=precision,
            revision=options.revision if where == name else None,
            selector=options.selector,
        )

    @lru_cache(maxsize=2)
    def of(embodiment: str | None) -> Policy:
        return load(name, embodiment or options.embodiment, options.precision)

    recorded = None
    if options.fixture is not None and options.embodiment is None:
        recorded = check_inputs.embodiments(options.fixture)
    start = time.perf_counter()
    policy = of(recorded[0] if recorded else None)
    seconds = time.perf_counter() - start
    spec = policy.spec
    yield Row(
        "load", spec.family, True, note=f"every key used, every weight filled, {seconds:.2f} s"
    )
    if options.robot:
        yield check_binding.row(spec, name, options.robot, options.model)
    if options.fixture is not None:
        cases = check_inputs.recorded(options.fixture, lambda tag: of(tag).spec)
        if options.embodiment is not None:
            cases = [c for c in cases if c.embodiment in (None, options.embodiment)]
        yield from check_rows.fixture(cases, of, options.precision)
    exact = None
    if options.precision != "float32":
        exact = load(name, spec.embodiment, "float32")
    yield from check_rows.fixed_inputs(policy, exact, options.batch)
    del exact
    yield from check_rows.conditions(policy)
    yield from check_rows.statistics(
        policy, lambda folder: load(folder, spec.embodiment, options.precision)
    )


def _result(options: argparse.Namespace, rows: Sequence[Row]) -> dict[str, Any]:
    cuda = options.device.startswith("cuda") and torch.cuda.is_available()
    return {
        "checkpoint": policy_options.checkpoint(options),
        "device": torch.cuda.get_device_name(options.device) if cuda else platform.machine(),
        "precision": options.precision,
        "selector": options.selector,
        "torch": torch.__version__,
        "passed": all(row.passed for row in rows),
        "rows": [vars(row) for row in rows],
    }


def _show(rows: Sequence[Row], out: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("check", "of", "found", "", "limit", "", "note"):
        numbers = heading in ("found", "limit")
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=heading != "note")
    for row in rows:
        table.add_row(
            row.check,
            row.detail,
            "" if row.error is None else f"{row.error:.3g}",
            row.rule,
            "" if row.limit is None else f"{row.limit:.3g}",
            Text("ok", "green") if row.passed else Text("FAILED", "bold red"),
            row.note,
        )
    out.print(table)
