# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One bag, one policy, one result."""

from __future__ import annotations

from typing import Any

from phyai_ros.bags.reader import Bag
from phyai_ros.nodes.frame_source import camera_topics
from phyai_ros.replay import self_paced
from phyai_ros.replay.as_recorded import Answers
from phyai_ros.replay.events import Timeline
from phyai_ros.replay.recorded_ticks import RecordedTicks
from phyai_ros.replay.result import Collector, ResultFile
from phyai_ros.replay.session import Session

REQUESTS = ("auto", "recorded", "own")


def replay(bag: Bag, session: Session, requests: str = "auto") -> ResultFile:
    """requests: ``recorded`` answers those of the live run in the bag, at its ticks; ``own`` lets
    the sensors drive a handoff of its own; ``auto`` takes what the bag has. Raises BagError, and
    ValueError naming what the bag lacks."""
    binding, choices = session.binding, session.choices
    timeline = Timeline(bag, session.robot, camera_topics(session.robot, binding))
    missing = timeline.missing()
    if missing:
        raise ValueError(
            f"{bag.path}: lacks {', '.join(missing)}; it has: {', '.join(sorted(bag.topics))}"
        )
    if requests == "recorded" and not timeline.has_live_run():
        raise ValueError(f"{bag.path}: holds no live run (no /phyai/chunk): use --requests own")
    recorded = timeline.has_live_run() if requests == "auto" else requests == "recorded"
    cameras = list(binding.roles)
    collector = Collector(session.robot.joint_names, cameras, binding.horizon)
    live: dict[str, int] = {}
    if recorded:
        answers = Answers(session, timeline, collector)
        answers.run()
        live = answers.live_policies
        RecordedTicks(session, timeline, answers.chunks, collector).run()
    else:
        self_paced.run(session, timeline, collector)
    about: dict[str, Any] = {
        "bag": bag.path.name,
        "clock": "/clock" if timeline.clock.simulated else "log",
        "mode": "recorded" if recorded else "own",
        "robot": session.robot.name,
        "policy": session.answering.name,
        "live_policies": live,
        "precision": choices.precision,
        "device": choices.device,
        "selector": choices.selector,
        "seed": choices.seed,
        "handoff": choices.handoff,
        "execution_horizon": session.execution_horizon,
        "delay": None if recorded else choices.delay,
        "step": binding.step,
        "states": list(binding.spec.state_names),
    }
    return collector.finish(about, binding.spec.state_dim)
