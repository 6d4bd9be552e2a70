# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The graph as data: launch arguments, and the nodes they make. No rclpy here.

``launch/policy.launch.py`` and ``phyai-ros up`` both read this module and hold no list of their
own. An empty argument means "not given": the node's own default, or the model's YAML, decides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from phyai_ros import robots
from phyai_ros.control import methods
from phyai_ros.nodes import arguments, model_file, transport
from phyai_ros.nodes.arguments import Argument, ArgumentError, Value
from phyai_ros.robots.errors import RobotError
from phyai_ros.robots.geometry import Geometry
from phyai_ros.robots.robot import Robot
from phyai_ros.sim import cells

ARGUMENTS = (
    Argument("model", "gr00t", "policy: a name in config/models, or a YAML file", known="models"),
    Argument("robot", "ur10e", "robot: a name in config/robots, or a YAML file", known="robots"),
    Argument("sim", False, "start the simulated robot as well, and keep all traffic on this host"),
    Argument(
        "instruction",
        "",
        "the task in words; empty: wait for one on /instruction; sim: each episode draws its own",
    ),
    Argument("checkpoint", "", "directory, hub id or id@revision; empty: the model's own"),
    Argument("embodiment", "", "the checkpoint's embodiment tag; empty: the model's own"),
    Argument("device", "cpu", "where the policy runs", choices=("cpu", "cuda", "auto")),
    Argument(
        "precision",
        "float32",
        "its floating point type",
        choices=("float32", "bfloat16", "fp8"),
    ),
    Argument(
        "handoff",
        "replace",
        "how a new chunk joins the old one",
        choices=methods.NAMES,
    ),
    Argument(
        "execution_horizon",
        0,
        "rows executed of a chunk before the next; 0: the model's own; -1: from the measured delay",
        low=-1,
        high=10_000,
    ),
    Argument(
        "synchronizer",
        "aligner",
        "what pairs the camera messages",
        choices=("aligner", "message_filters"),
    ),
    Argument("overlay", False, "publish the cameras' pictures with the plan drawn in"),
    Argument("dry_run", False, "log the commands and send none: the first run on a real arm"),
    Argument("seed", 0, "of the policy's noise and the first episode", low=0, high=2**31),
    Argument("use_sim_time", False, "time from /clock; the simulator then publishes it"),
    Argument("task", "reach", "sim: what the episodes are about", choices=cells.TASKS),
    Argument("conveyor_speed", 0.0, "sim: m/s of the target block", low=0.0, high=0.3),
    Argument("conveyor_reversing", False, "sim: the conveyor turns round at random"),
    Argument("threads", 0, "CPU threads of the policy; 0: by the machine", low=0, high=256),
)
STOP_ORDER = ("handoff_node", "policy_node", "sim_node")
"""The robot's commands end first; the simulator, which takes them, last."""


@dataclass(frozen=True)
class NodeSpec:
    """One process. executable: its name in this package. parameters: typed values by name.
    environment: added to the process's environment unless the user has set it."""

    executable: str
    parameters: Mapping[str, Value]
    environment: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    @property
    def name(self) -> str:
        return self.executable


def nodes(values: Mapping[str, Value]) -> tuple[NodeSpec, ...]:
    """Every node of the graph for checked argument values, in the order of starting.

    Raises ArgumentError where a model or robot file cannot be used.
    """
    try:
        model, _ = model_file.load(str(values["model"]))
        # A mistake in it is said here, once, and not by each node.
        robot = robots.load(str(values["robot"]))
        if values["overlay"]:
            Geometry(robot)
    except RobotError as error:
        raise ArgumentError(str(error)) from error
    if values["sim"]:
        _check_simulated(robot, str(values["task"]))
    shared = {"robot": values["robot"], "use_sim_time": values["use_sim_time"]}
    specs = []
    if values["sim"]:
        specs.append(
            NodeSpec(
                "sim_node",
                {
                    **shared,
                    "use_sim_time": False,  # it is the clock
                    "publish_clock": values["use_sim_time"],
                    "seed": values["seed"],
                    "instruction": values["instruction"] or "sampled",
                    "tell_instruction": not values["instruction"],
                    "task": values["task"],
                    "conveyor_speed": values["conveyor_speed"],
                    "conveyor_reversing": values["conveyor_reversing"],
                },
                _ONE_THREAD,
                "the simulated robot",
            )
        )
    policy = {
        **shared,
        **{
            name: values[name]
            for name in (
                "model",
                "checkpoint",
                "embodiment",
                "device",
                "precision",
                "synchronizer",
                "instruction",
                "seed",
                "handoff",
            )
        },
    }
    threads = _policy_threads(values)
    specs.append(
        NodeSpec(
            "policy_node",
            {**policy, "threads": threads},
            {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            "observations in, chunks of actions out",
        )
    )
    handoff = {
        **shared,
        **{name: values[name] for name in ("handoff", "instruction", "dry_run")},
    }
    horizon = values["execution_horizon"] or model.execution_horizon
    if horizon:
        handoff["execution_horizon"] = max(0, int(horizon))  # the node's own word for "measured"
    specs.append(NodeSpec("handoff_node", handoff, _ONE_THREAD, "plays chunks at the control rate"))
    if values["overlay"]:
        what = "pictures with the plan drawn in"
        specs.append(NodeSpec("overlay_node", shared, _ONE_THREAD, what))
    return tuple(specs)


def environment(values: Mapping[str, Value]) -> dict[str, str]:
    """What every process needs in its environment and the user may set otherwise."""
    # A simulated arm's commands must never reach a real one on the same network.
    return transport.settings(local=bool(values["sim"]))


def parse(given: Mapping[str, str]) -> dict[str, Value]:
    """Text by argument name -> typed values, defaults filled in. Raises ArgumentError."""
    return arguments.parse(ARGUMENTS, given)


def _check_simulated(robot: Robot, task: str) -> None:
    try:
        there = cells.kind(robot.name)
    except ValueError as error:
        raise ArgumentError(f"sim:=true: {robot.source}: name: {error}") from error
    if task not in there.tasks:
        raise ArgumentError(
            f"task:={task}: the simulated {robot.name} has {', '.join(there.tasks)}"
        )


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _policy_threads(values: Mapping[str, Value]) -> int:
    """The simulator renders on the CPU too, so the two share its cores."""
    if values["threads"]:
        return int(values["threads"])
    cores = len(os.sched_getaffinity(0))
    return max(1, cores // 2) if values["sim"] else cores
