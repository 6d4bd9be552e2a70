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
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from phyai_ros import robots
from phyai_ros.control import methods
from phyai_ros.control.words import counted
from phyai_ros.nodes import model_file, pairing
from phyai_ros.sim import cells, world
from phyai_ros.study import design as design_
from phyai_ros.study import latency, plots, results
from phyai_ros.study.design import EXPERT, Design, Setting
from phyai_ros.study.journal import Journal
from phyai_ros.study.worker import Cell, run_all
from phyai_ros.tools import console

_DESCRIPTION = """Runs the policy in the simulated cell with the real handoff, guard and aligner on
a virtual clock, once for each combination of handoff method, delay and execution horizon, on the
same seeded episodes. Two runs with the same arguments write the same study.json."""
_EPILOG = """examples:
  phyai-ros study --model gr00t --delay-ms 0,100,200,400 --handoff all --episodes 20 --jobs 2
  phyai-ros study --model gr00t --delay-ms 200,100x5@10 --handoff replace,rtc_identity
  phyai-ros study --model gr00t --delay-from runs/today/report.json --task follow --speed 0.04
  phyai-ros study --checkpoint expert --delay-ms 0,400 --task follow
  phyai-ros study --robot aloha --model act --delay-ms 100 --horizon 20
Ctrl-C keeps what is done; the same command with the same --out goes on from there.
"""


MODEL = "gr00t"
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
    options = _parser().parse_args(words)
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
        journal = Journal(out / "episodes.jsonl", fixed)
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
    _write(result, out)
    _show(result)
    console.say("info", f"written to {out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="phyai-ros study",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--robot", default="ur10e", help="a name in config/robots or a YAML file")
    add(
        "--model",
        help=f"a name in config/models or a YAML file; default: {MODEL}, or what comes with "
        "the robot",
    )
    add(
        "--checkpoint",
        default="",
        help="name, directory or hub id; default: the model's own; "
        "'expert': the scripted expert, which knows where the block is",
    )
    add("--embodiment", help="the checkpoint's embodiment tag; default: the model's own")
    add(
        "--handoff",
        default="all",
        help="methods, comma-separated, or all that the policy can do: " + ", ".join(methods.NAMES),
    )
    add(
        "--delay-ms",
        default="",
        help="of an answer, comma-separated; 100x5@10: 100 ms, five times "
        "as long every tenth answer; default 0,100,200,400",
    )
    add(
        "--delay-from",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="delays as measured: a run's report.json, or seconds in a JSON or text file",
    )
    add("--horizon", default="8", help="rows executed of a chunk, comma-separated")
    add("--task", default="reach", choices=cells.TASKS)
    add(
        "--speed",
        type=float,
        default=None,
        help=f"of the block, m/s; default: 0, for follow {world.FOLLOW_SPEED}",
    )
    add("--reversing", action="store_true", help="the conveyor turns round at random")
    add("--episodes", type=int, default=20, help="of each combination")
    add("--seed", type=int, default=design_.FIRST_SEED, help="of the first episode")
    add(
        "--image-age-ms",
        type=float,
        default=0.0,
        help="how long before a tick its pictures are taken; a robot's cameras keep no tick",
    )
    add("--time-limit", type=float, default=10.0, help="of an episode, s")
    add("--jobs", type=int, default=1, help="processes")
    add("--out", default="", help="folder; default: runs/study_<date and time>")
    return parser


def _setting(options: argparse.Namespace) -> Setting:
    for name in ("episodes", "jobs"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name}: expected at least 1, found {getattr(options, name)}")
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
    terminal = Console()
    if not terminal.is_terminal:  # a pipe has no width: the table must not be cut there
        terminal = Console(width=_WIDE)
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
