# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A recording on a virtual clock: the real simulator, expert and handoff, no ROS and no waiting."""

from __future__ import annotations

import numpy as np

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.nodes import outlets
from phyai_ros.sim import expert, world
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.episodes import Episodes
from phyai_ros.tools.recording import ChunkSeen, Episode, Frame, Recording, Tick

START = 1000.0
PERIOD = 0.05
STAGES = {
    "wait": 0.012,
    "preprocess": 0.004,
    "vision": 0.018,
    "prefix": 0.014,
    "solver": 0.012,
    "convert": 0.001,
}


def rehearse(
    episodes: int = 2,
    delay: int = 2,
    frames: bool = True,
    time_limit: float = 10.0,
    lost: tuple[int, ...] = (),
) -> Recording:
    """delay: ticks from request to answer. lost: requests that are never answered (by number)."""
    ticks_of_limits = Limits(
        kin.JOINTS, *kin.POSITION_LIMITS.T, kin.VELOCITY_LIMITS, 20.0 * kin.VELOCITY_LIMITS
    )
    handoff = Handoff(ticks_of_limits, HandoffConfig(PERIOD, execution_horizon=8))
    cell = world.make()
    runs = Episodes(cell, time_limit=time_limit)
    recording = Recording(
        joint_names=kin.JOINTS,
        commands=[[]],
        real_time=[1.0, 0.999],
        ways=(outlets.forward("/commands", kin.JOINTS),),
    )
    on_the_way: list[tuple[int, Chunk]] = []
    now, number, asked = START, 0, 0
    for _ in range(episodes):
        recording.episodes.append(Episode(runs.description(), now))
        shown = -1.0
        while True:
            for item in [i for i in on_the_way if i[0] <= number]:
                on_the_way.remove(item)
                handoff.accept(item[1])
                seen = item[1]
                recording.chunks.append(
                    ChunkSeen(
                        now - 0.003,
                        seen.stamp,
                        seen.request_id,
                        seen.epoch,
                        len(seen.positions),
                        STAGES,
                    )
                )
            measured = cell.physics.joints()[0]
            command = handoff.tick(now, measured)
            recording.ticks.append(_tick(now, command, handoff))
            if command.positions is not None:
                recording.commands[0].append((now + 0.0004, command.positions[None]))
                runs.command(command.positions)
            request = handoff.request(now)
            if request is not None:
                asked += 1
                if asked not in lost:
                    rows = expert.chunks(measured, cell.state().target_block)
                    chunk = _chunk(rows, now, request)
                    on_the_way.append((number + delay, chunk))
            if frames and now - shown >= 0.2:
                shown = now
                images = {name: cell.render(name) for name in world.CAMERAS}
                recording.episodes[-1].frames.append(Frame(now, images))
            cell.step(PERIOD)
            now += PERIOD
            number += 1
            if runs.update() is not None:
                break
        recording.episodes[-1].about = runs.description()
        recording.episodes[-1].end = now
        handoff.hold()
        for _ in range(6):
            recording.ticks.append(_tick(now, handoff.tick(now, cell.physics.joints()[0]), handoff))
            cell.step(PERIOD)
            now += PERIOD
            number += 1
        runs.begin_next()
        handoff.reset(now)
        on_the_way.clear()
    cell.close()
    return recording


def _chunk(rows: np.ndarray, stamp: float, request) -> Chunk:
    return Chunk(
        request_id=request.request_id,
        epoch=request.epoch,
        stamp=stamp,
        step=PERIOD,
        joint_names=kin.JOINTS,
        positions=rows,
    )


def _tick(now, command, handoff) -> Tick:
    c = handoff.counters
    return Tick(
        now,
        now + 0.0005,
        command.state,
        command.request_id,
        command.epoch,
        command.index,
        command.remaining,
        handoff.requests.expected_delay,
        handoff.measured_delay,
        c.missed_ticks,
        c.starved_ticks,
        handoff.guard.limited_ticks,
        c.late_chunks,
        c.dropped_chunks,
        command.action_age,
        0.0003,
        0.004 if command.first_use else float("nan"),
    )
