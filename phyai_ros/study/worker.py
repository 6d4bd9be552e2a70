# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Runs episodes, in this process or in several: the outcome is the same."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any

from phyai_ros import robots
from phyai_ros.nodes import model_file, pairing
from phyai_ros.robots.binding import Binding
from phyai_ros.sim import cells
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.study import measure
from phyai_ros.study.design import EXPERT, Setting
from phyai_ros.study.loop import Condition, run_episode
from phyai_ros.study.players import ExpertPlayer, Player, PolicyPlayer

Row = dict[str, Any]


class Cell:
    """A world, a robot and who answers, loaded once. Not thread-safe."""

    def __init__(self, setting: Setting) -> None:
        self._limit, self._image_age = setting.limit, setting.image_age
        self.robot = robots.load(setting.robot)
        if not 0.0 <= setting.image_age < self.robot.period:
            raise ValueError(
                f"image age: expected less than a control period, {1e3 * self.robot.period:g} ms, "
                f"found {1e3 * setting.image_age:g} ms"
            )
        conveyor = Conveyor(setting.speed, setting.reversing) if setting.speed else None
        self.world = cells.make(self.robot.name, setting.task, conveyor=conveyor)
        there = self.world.joint_names
        if set(self.robot.joint_names) != set(there):
            raise ValueError(
                f"{self.robot.source}: joints: expected those of the simulated {self.robot.name}, "
                f"{list(there)}, found {list(self.robot.joint_names)}"
            )
        discrete = self.robot.discrete_joints
        names = self.robot.joint_names
        self._arm = [i for i, n in enumerate(names) if n not in discrete]
        self.player: Player
        self.guidance: tuple[str, ...] = ()
        if setting.checkpoint == EXPERT:
            expert = ExpertPlayer(self.robot)
            self.player, self.horizon = expert, expert.horizon
        else:
            self.player = self._policy(setting)

    def _policy(self, setting: Setting) -> PolicyPlayer:
        import torch

        from phyai_ros.engine.policy import load_policy
        from phyai_ros.engine.types import OtherFamilyError

        torch.set_num_threads(1)  # sums in one order: the same on any number of cores
        model, source = model_file.load(setting.model)
        part = model_file.robot_part(model, self.robot.name, source)
        try:
            policy = load_policy(
                setting.checkpoint,
                family=model.family,
                embodiment=setting.embodiment or part.embodiment,
                revision=model.revision,
            )
        except OtherFamilyError as error:
            text = pairing.other_family(str(model.family), source, setting.checkpoint, error.found)
            raise ValueError(f"{text}; name one with --model") from error
        binding = Binding(self.robot, policy.spec, part, source=source)
        self.horizon, self.guidance = policy.spec.horizon, policy.spec.guidance_methods
        return PolicyPlayer(policy, binding, self.robot)

    def run(self, condition: Condition, seed: int) -> Row:
        trace = run_episode(
            self.world, self.robot, self.player, condition, seed, self._limit, self._image_age
        )
        numbers = measure.episode(trace, self._arm, self.robot.period)
        return {"condition": condition.key, "seed": seed, **numbers}

    def close(self) -> None:
        self.world.close()


_cell: Cell | None = None


def _begin(setting: Setting) -> None:
    global _cell
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _cell = Cell(setting)


def _end_with_parent() -> None:
    """However the parent ends, killed too: an orphan would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(condition: Condition, seed: int) -> Row:
    assert _cell is not None
    return _cell.run(condition, seed)


def run_all(
    cell: Cell, setting: Setting, jobs: Sequence[tuple[Condition, int]], processes: int
) -> Generator[Row, None, None]:
    """Rows as they are done. cell: used when ``processes`` is 1. Closing the iterator ends every
    process."""
    if processes == 1:
        for condition, seed in jobs:
            yield cell.run(condition, seed)
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin, (setting,))
    try:
        futures: list[Future[Row]] = [pool.submit(_run, *job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
