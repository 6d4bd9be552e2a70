# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which faults come, in which order, how long and how exactly: all of it from a seed. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

INSTANT = (0.0, 0.0)


@dataclass(frozen=True)
class Robot:
    """What faults are about. cameras: roles. joints: names. clock: whether time is simulated."""

    cameras: Sequence[str]
    joints: Sequence[str]
    clock: bool = False


@dataclass(frozen=True)
class Fault:
    """One fault. kind: its Kind's name. duration: seconds, 0 for a blow that is over at once.
    parameters: how exactly, fit for JSON."""

    kind: str
    duration: float
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        values = self.parameters.values()
        details = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
        return self.kind.replace("_", " ") + (f" ({details})" if details else "")


Draw = Callable[[random.Random, Robot], dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """duration: seconds, lowest and highest. names: regular expression that a warning or error of
    /diagnostics, as "status name: message", must match; {parameter} stands for a parameter's
    value; None: nobody is bound to notice. must_show: whether it must be named also where the arm
    went on all the same. seen_moving: nobody can tell while the arm stands. deadly: it ends
    processes. each_camera: comes once a camera. of_clock: only where time is simulated."""

    name: str
    duration: tuple[float, float]
    names: str | None
    draw: Draw = lambda random, robot: {}
    must_show: bool = True
    seen_moving: bool = False
    deadly: bool = False
    each_camera: bool = False
    of_clock: bool = False


KINDS = (
    Kind("camera_dropped", (2.0, 3.0), r"{camera}", each_camera=True),
    Kind(
        "camera_delayed",
        (2.5, 3.5),
        r"{camera}",
        lambda r, _: {"seconds": round(r.uniform(0.4, 1.0), 2)},
        each_camera=True,
    ),
    Kind(
        "camera_frozen",
        (3.0, 4.0),
        r"{camera}",
        lambda r, _: {"what": r.choice(["stamp", "pixels"])},
        each_camera=True,
        seen_moving=True,
    ),
    Kind(
        "camera_corrupted",
        (2.0, 3.0),
        r"{camera}",
        lambda r, _: {"what": r.choice(["encoding", "cut off", "height"])},
        each_camera=True,
    ),
    Kind("joints_silent", (2.0, 3.0), r"joint"),
    Kind(
        "joint_missing",
        (2.0, 3.0),
        r"{joint}",
        lambda r, robot: {"joint": r.choice(robot.joints)},
    ),
    Kind(
        "joint_not_a_number",
        (2.0, 3.0),
        r"{joint}",
        lambda r, robot: {"joint": r.choice(robot.joints)},
    ),
    Kind(
        "stamps_jump",
        (2.0, 3.0),
        r"stamp|old|went back|ahead",
        lambda r, _: {"seconds": r.choice([-1, 1]) * round(r.uniform(0.6, 30.0), 1)},
    ),
    Kind(
        "clock_jump",
        (2.0, 3.0),
        r"jump",
        lambda r, _: {"seconds": r.choice([-1, 1]) * round(r.uniform(2.0, 30.0), 1)},
        of_clock=True,
    ),
    Kind(
        "instructions_storm",
        (2.0, 3.0),
        r"instruction: refused",  # `new instruction` is what the sensible ones bring about
        lambda r, _: {"seed": r.randrange(2**31)},
    ),
    Kind("cpu_hogs", (3.0, 5.0), r".", must_show=False),
    Kind("disk_full", (3.0, 4.0), r"disk|recording|space"),
    Kind("policy_killed", INSTANT, r"policy_node", deadly=True),
    Kind("handoff_killed", INSTANT, r"handoff_node", deadly=True),
    Kind("simulator_killed", (1.0, 3.0), r"camera|joint", deadly=True),
    Kind("recorder_killed", INSTANT, None, deadly=True),
    Kind("dds_restart", (1.0, 2.0), r"policy_node|handoff_node|camera|joint", deadly=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def pattern(names: str, parameters: Mapping[str, Any]) -> str:
    """A Kind's ``names`` for one fault."""
    return names.format(**{key: re.escape(str(value)) for key, value in parameters.items()})


def round_of(seed: int, number: int, robot: Robot, *, calm: bool = False) -> list[Fault]:
    """Round ``number``: every kind once (per camera where it is about one), shuffled. calm: without
    the deadly ones. The same arguments give the same round."""
    random_ = random.Random(f"{seed}/{number}")
    faults = []
    for kind in KINDS:
        for camera in robot.cameras if kind.each_camera else [None]:
            # Drawn also where it is left out: a calm round differs by nothing else.
            parameters = kind.draw(random_, robot)
            if camera is not None:
                parameters = {"camera": camera, **parameters}
            duration = round(random_.uniform(*kind.duration), 2)
            if not (calm and kind.deadly) and (robot.clock or not kind.of_clock):
                faults.append(Fault(kind.name, duration, parameters))
    random_.shuffle(faults)
    return faults
