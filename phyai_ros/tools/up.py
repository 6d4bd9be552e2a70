# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros up``: start the graph, watch it, report, stop it in order."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import yaml

from phyai_ros import robots
from phyai_ros.nodes import arguments, graph, outlets, pairing
from phyai_ros.nodes.arguments import Argument, ArgumentError, Value
from phyai_ros.nodes.restarts import OPTIONAL, Restarts
from phyai_ros.tools import console, neighbours, shared_memory, writing
from phyai_ros.tools.supervise import Command, Supervisor

if TYPE_CHECKING:
    from phyai_ros.tools import monitor

ARGUMENTS = (
    Argument(
        "duration",
        0.0,
        "s from the first command on, an episode under way has 60 s more to end; 0: no limit",
        low=0,
        high=1e6,
    ),
    Argument(
        "episodes",
        0,
        "stop after so many episodes, only with sim:=true; 0: no limit",
        low=0,
        high=100_000,
    ),
    Argument("out", "", "folder for report and logs; empty: runs/<date and time>"),
)
_HELP = """usage: phyai-ros up [name:=value ...]

Starts the policy and the handoff, with sim:=true also a simulated robot, and shows what they do.
Ends with a report: on the terminal, and as report.json with pictures and logs in the run's folder.
The same arguments work with: ros2 launch phyai_ros policy.launch.py

examples:
  phyai-ros up model:=gr00t robot:=ur10e sim:=true instruction:="reach the red block"
  phyai-ros up sim:=true instruction:="reach the blue block" episodes:=10 out:=runs/blue
  phyai-ros up robot:=my_arm.yaml checkpoint:=path/to/checkpoint device:=cuda

A run in which no command comes within 120 s ends, with status 1.
exit status: 0 done; 1 a process failed, or crashed and was started again (the run was not clean),
no command came, the last episode did not end, the arm was in a fault or held off its commands at
the end, or another system runs in this ROS domain; 2 wrong usage; 130 Ctrl-C; 143 terminated

arguments:
"""


def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 a process failed or crashed, 2 wrong usage, 130 Ctrl-C, 143
    terminated."""
    if any(word in ("-h", "--help", "-s", "--show-args") for word in words):
        print(_HELP + describe_arguments(), end="")
        return 0
    try:
        values = arguments.parse((*graph.ARGUMENTS, *ARGUMENTS), arguments.split(words))
        refuse_idle(values)
        specs = graph.nodes(values)
        pairing.check(values)
    except ArgumentError as error:
        console.fail(str(error))
        console.say("info", "phyai-ros up --help lists every argument")
        return 2
    # This process talks to the graph too, by the same middleware settings.
    for name, text in graph.environment(values).items():
        os.environ.setdefault(name, text)
    if other := neighbours.running():
        domain = os.environ.get("ROS_DOMAIN_ID") or "0"
        console.fail(
            f"another system runs in ROS domain {domain}: {other} says its state there. Two would "
            "command one arm: stop that one, or give each its own ROS_DOMAIN_ID"
        )
        return 1
    run_dir = Path(str(values["out"]) or f"runs/{datetime.now():%Y-%m-%d_%H-%M-%S}")
    run_dir = Path(os.path.abspath(run_dir))  # without ".." in what people are told
    try:
        commands = make_commands(specs, graph.environment(values), run_dir)
    except OSError as error:
        console.fail(f"out:={run_dir}: no folder for report and logs there: {writing.why(error)}")
        return 2
    return _run(values, commands, run_dir)


def refuse_idle(values: Mapping[str, Value]) -> None:
    """Raises ArgumentError for an argument that would do nothing beside the others."""
    if not values["episodes"] or (values["sim"] and not values["dry_run"]):
        return
    found = "dry_run:=true" if values["dry_run"] else "sim:=false"
    raise ArgumentError(
        f"episodes:={values['episodes']} with {found}: only a simulated robot that is commanded "
        "has episodes; duration:=30 ends a run after 30 s"
    )


def describe_arguments() -> str:
    """Every argument: default, allowed values, meaning."""
    lines = []
    for argument in (*graph.ARGUMENTS, *ARGUMENTS):
        lines += [f"  {argument.name}:={argument.text()}", f"      {argument.help()}"]
    return "\n".join(lines) + "\n"


def make_commands(
    specs: Sequence[graph.NodeSpec], settings: Mapping[str, str], run_dir: Path
) -> list[Command]:
    """A process for every node. Writes each node's parameters beside its log. What the user's
    environment sets already, it keeps."""
    logs = run_dir / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    plain = {"RCUTILS_COLORIZED_OUTPUT": "0", "PYTHONUNBUFFERED": "1"}
    commands = []
    for spec in specs:
        (logs / f"{spec.name}.log").unlink(missing_ok=True)  # of an earlier run into this folder
        parameters = logs / f"{spec.name}.yaml"
        # A file keeps types as they are: as a command line word "true" or "7" would lose its own.
        content = {spec.name: {"ros__parameters": dict(spec.parameters)}}
        parameters.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
        commands.append(
            Command(
                spec.name,
                [
                    sys.executable,
                    *("-m", f"phyai_ros.nodes.{spec.executable}"),
                    # rclpy would write a second copy of every line into a file of its own.
                    *("--ros-args", "--disable-external-lib-logs"),
                    *("--params-file", str(parameters)),
                ],
                {**plain, **settings, **spec.environment, **os.environ},
                logs / f"{spec.name}.log",
            )
        )
    return commands


class Interrupt:
    """Ctrl-C, termination and a closed terminal as an event; a second one ends this process, and
    with it, through the parent-death signal, every child."""

    def __init__(self, stop: threading.Event) -> None:
        self.status: int | None = None
        self._stop = stop
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.status is not None:
            os._exit(128 + number)
        self.status = number
        self._stop.set()


def _run(values: Mapping[str, Value], commands: Sequence[Command], run_dir: Path) -> int:
    stop = threading.Event()
    interrupt = Interrupt(stop)
    supervisor = Supervisor(
        commands,
        console.say,
        Restarts().after,
        stop,
        graph.STOP_ORDER,
        on_crash=shared_memory.sweep,
        optional=OPTIONAL,
    )
    shared_memory.sweep()
    supervisor.start()

    def why_stopped() -> str | None:
        if not stop.is_set():
            return None
        return supervisor.reason or f"stopped by {signal.Signals(interrupt.status or 15).name}"

    # On a thread: the robot stops at once, not after the report has been written.
    def stop_children() -> None:
        stop.wait()
        supervisor.stop()

    stopper = threading.Thread(target=stop_children, name="stopper", daemon=True)
    stopper.start()
    status = 1
    try:
        from phyai_ros.tools import monitor  # rclpy takes a moment; the nodes are on their way

        what = watched(values, run_dir)
        status = monitor.run(
            what,
            stopped=why_stopped,
            ended=stop.set,
            crashes=lambda: supervisor.crashes,
            cause=lambda: supervisor.cause,
            console=console.console,
        )
    finally:
        stop.set()
        stopper.join()
        shared_memory.sweep()
    if supervisor.status is not None:
        console.fail(f"{supervisor.reason}; everything is stopped")
        return supervisor.status
    return status if interrupt.status is None else 128 + interrupt.status


def watched(values: Mapping[str, Value], run_dir: Path) -> monitor.Run:
    """What the monitor is told of these arguments."""
    from phyai_ros.tools import monitor
    from phyai_ros.tools.recording import SHOWN

    robot = robots.load(str(values["robot"]))
    return monitor.Run(
        run_dir,
        # An episode begins with the first command, and a dry run sends none.
        sim=bool(values["sim"]) and not values["dry_run"],
        duration=float(values["duration"]) or None,
        episodes=int(values["episodes"]) or None,
        # As many as a frame of the film strip shows: a picture costs whoever sends it, too.
        cameras={role: camera.topic for role, camera in list(robot.cameras.items())[:SHOWN]},
        ways=outlets.ways(robot),
        joint_names=robot.joint_names,
        about={name: values[name] for name in ("model", "robot", "instruction", "seed")},
        use_sim_time=bool(values["use_sim_time"]),
    )
