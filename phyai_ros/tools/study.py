# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros study``: handoff methods under delay, in closed loop on a virtual clock."""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from phyai_ros import robots
from phyai_ros.control import methods
from phyai_ros.control.words import counted
from phyai_ros.nodes import model_file, pairing
from phyai_ros.sim import world
from phyai_ros.study import design as design_
from phyai_ros.study import latency, plots, results
from phyai_ros.study.design import EXPERT, Design, Setting
from phyai_ros.study.journal import Journal
from phyai_ros.study.worker import Cell, run_all
from phyai_ros.tools import console, study_options, writing
from phyai_ros.tools.study_options import MODEL

_WIDE = 160
_NARROW = frozenset(
    {
        "handoff",
        "delay",
        "horizon",
        "success",
        "starved_ticks",
        "blocked_share",
        "boundary_jerk",
        "jerk_ratio",
        "reaction",
    }
)
"""Columns that a narrow terminal shows; study.md has them all."""


class Terminated(Exception):  # noqa: N818
    """SIGTERM: as Ctrl-C, with another exit status."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C, 143 terminated."""
    options = study_options.parser().parse_args(words)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        setting = _setting(options)
        cell = Cell(setting)
        design = _design(options, setting, cell)
        out = Path(options.out or f"runs/study_{datetime.now():%Y-%m-%d_%H-%M-%S}")
        about = {
            **setting.about(),
            "chunk_horizon": cell.horizon,
            "control_rate": cell.robot.control_rate,
            "episodes": options.episodes,
            "first_seed": options.seed,
        }
        # More episodes or conditions of the same kind go on in the same journal.
        fixed = {k: v for k, v in about.items() if k not in ("episodes", "first_seed")}
        try:
            journal = Journal(out / "episodes.jsonl", fixed)
        except OSError as error:
            raise ValueError(
                f"{out.absolute()}: no folder for the episodes there: {writing.why(error)}; "
                "--out DIR names another"
            ) from None
    except (ValueError, OSError) as error:
        console.fail(str(error))
        return 2
    with closing(journal):
        try:
            _run(design, cell, journal, options.jobs)
        except (KeyboardInterrupt, Terminated) as stop:
            done = sum((c.key, s) in journal.rows for c, s in design.jobs())
            console.say(
                "warning",
                f"stopped after {done} of {counted(len(design.jobs()), 'episode')}; the same "
                f"command with --out {out} goes on from there",
            )
            return 143 if isinstance(stop, Terminated) else 130
        finally:
            cell.close()
    result = results.build(design, journal.rows, about)
    _show(result)
    try:
        _write(result, out)
    except OSError as error:
        console.fail(
            f"{error.filename or out} not written: {writing.why(error)}; the episodes are in "
            f"{journal.path}: the same command with --out {out} writes the rest from there"
        )
        return 1
    console.say("info", f"written to {out}")
    return 0


def _setting(options: argparse.Namespace) -> Setting:
    speed = options.speed
    if speed is None:
        speed = world.FOLLOW_SPEED if options.task == "follow" else 0.0
    if options.task == "follow" and not speed > 0:
        raise ValueError(f"--speed: the task follow needs a speed above 0, found {speed:g}")
    checkpoint = options.checkpoint
    name = _model(options.robot) if options.model is None else options.model
    if checkpoint != EXPERT:
        model, source = model_file.load(name)
        checkpoint = model_file.checkpoint_path(checkpoint or model.checkpoint, source)
    return Setting(
        robot=options.robot,
        model=name,
        checkpoint=checkpoint,
        embodiment=options.embodiment,
        task=options.task,
        speed=speed,
        reversing=options.reversing,
        limit=options.time_limit,
        image_age=options.image_age_ms / 1e3,
    )


def _model(robot: str) -> str:
    """Of a robot for which none was named."""
    known = robots.load(robot).name
    fitting = [model for model, other in pairing.packaged() if robots.load(other).name == known]
    return fitting[0] if fitting and MODEL not in fitting else MODEL


def _design(options: argparse.Namespace, setting: Setting, cell: Cell) -> Design:
    delays = options.delay_ms or ("" if options.delay_from else "0,100,200,400")
    latencies = [latency.parse(text) for text in delays.split(",") if text]
    latencies += [latency.read(path, setting.image_age) for path in options.delay_from]
    latencies = list({each.label: each for each in latencies}.values())
    handoffs = _handoffs(options.handoff, cell, setting)
    horizons = _horizons(options.horizon, cell)
    for name, values in (("handoff", handoffs), ("horizon", horizons), ("delay-ms", latencies)):
        if not values:
            raise ValueError(f"--{name}: expected at least one")
    least = max(horizons) * cell.robot.period
    if not setting.limit > least:
        raise ValueError(
            f"--time-limit: expected more than {least:g} s, before which no second chunk of "
            f"{counted(max(horizons), 'row')} takes over, found {setting.limit:g}"
        )
    conditions = design_.cross(handoffs, horizons, latencies)
    return Design(setting, conditions, options.episodes, options.seed)


def _handoffs(text: str, cell: Cell, setting: Setting) -> list[str]:
    name = Path(setting.checkpoint).name
    if text != "all":
        wanted = list(dict.fromkeys(word for word in text.split(",") if word))
        for method in wanted:
            methods.make(method)  # refuses an unknown one
            methods.check_guidance(method, cell.guidance, name)
        return wanted
    able, unable = list(methods.METHODS), list[str]()
    for method in methods.GUIDED:
        (able if methods.make(method).guidance in cell.guidance else unable).append(method)
    if unable:
        console.say("info", f"{name} cannot be guided by {', '.join(unable)}: left out")
    return able


def _horizons(text: str, cell: Cell) -> list[int]:
    try:
        horizons = list(dict.fromkeys(int(word) for word in text.split(",") if word))
    except ValueError:
        raise ValueError(f"--horizon: expected whole numbers, found {text!r}") from None
    for horizon in horizons:
        if not 1 <= horizon <= cell.horizon:
            raise ValueError(f"--horizon: expected 1 to {cell.horizon}, found {horizon}")
    return horizons


def _run(design: Design, cell: Cell, journal: Journal, processes: int) -> None:
    jobs = [job for job in design.jobs() if (job[0].key, job[1]) not in journal.rows]
    total = len(design.jobs())
    if len(jobs) < total:
        console.say("info", f"{total - len(jobs)} of {counted(total, 'episode')} done already")
    if not jobs:
        return
    began, simulated = time.monotonic(), 0.0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console.console, disable=not console.interactive()) as bar:
        task = bar.add_task("episodes", total=len(jobs))
        rows = run_all(cell, design.setting, jobs, min(processes, len(jobs)))
        with closing(rows):
            for row in rows:
                journal.add(row)
                simulated += row["ticks"] / cell.robot.control_rate
                bar.advance(task)
    factor = simulated / max(time.monotonic() - began, 1e-9)
    console.say(
        "info",
        f"{counted(len(jobs), 'episode')}, {simulated:.0f} simulated seconds, "
        f"{factor:.1f} times real time",
    )


def _write(result: dict[str, Any], out: Path) -> None:
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (out / "study.json").write_text(text, encoding="utf-8")
    (out / "study.md").write_text(results.markdown(result), encoding="utf-8")
    plots.draw(result, out)


def _show(result: dict[str, Any]) -> None:
    terminal = console.results(_WIDE)
    columns = [
        i
        for i, (key, _, _, _) in enumerate(results.COLUMNS)
        if terminal.width >= _WIDE or key in _NARROW
    ]
    table = Table(
        box=box.SIMPLE_HEAD,
        title="2nd differences in mrad/tick², steps in mrad",
        title_justify="left",
    )
    for i in columns:
        key, heading, _, _ = results.COLUMNS[i]
        left = key in ("handoff", "delay")
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    for entry in result["conditions"]:
        cells = results.cells(entry)
        table.add_row(*(cells[i] for i in columns))
    terminal.print(table)
