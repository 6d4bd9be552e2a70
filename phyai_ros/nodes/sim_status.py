# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""sim_node's lines of /diagnostics."""

from __future__ import annotations

from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, Reasons, Status
from phyai_ros.nodes.sim_cameras import Cameras
from phyai_ros.nodes.sim_time import SimTime
from phyai_ros.sim.cell import Cell
from phyai_ros.sim.episodes import Episodes


def pace(time: SimTime, wanted: float, missed: int, failure: str | None) -> Status:
    """wanted: simulated seconds a second. missed: cycles. failure: why the simulation stopped."""
    factor = time.factor()
    slow = factor < 0.98 * wanted
    return Status(
        "pace",
        ERROR if failure else WARN if slow else OK,
        failure or f"{factor:.3f} of real time" + (", too slow" if slow else ""),
        {
            "real-time factor": factor,
            "wanted factor": wanted,
            "time given up s": time.lost,
            "missed cycles": missed,
        },
    )


def cameras(shown: Cameras) -> Status:
    p50, p99 = shown.seconds.percentiles()
    failure = shown.failure
    return Status(
        "cameras",
        ERROR if failure else OK,
        repr(failure) if failure else f"{shown.published} sets published",
        {
            "sets published": shown.published,
            "sets dropped": shown.dropped,
            "render and publish p50 s": p50,
            "render and publish p99 s": p99,
        },
    )


def episode(episodes: Episodes, world: Cell, accepted: int, refused: Reasons) -> Status:
    """accepted: commands. refused: those that could not be read, by reason."""
    return Status(
        "episode",
        WARN if refused.total else OK,
        f"{episodes.phase.value}: {world.instruction}",
        {
            "seed": episodes.seed,
            "distance m": world.distance,
            "commands accepted": accepted,
            "commands away from the arm": episodes.refused,
            "commands refused": str(refused),
        },
    )
