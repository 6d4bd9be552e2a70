# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Bounded buffers of one camera and of one joint, ordered by stamp."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from phyai_ros.control.frame import NotReady, Reason

IMPLAUSIBLE = 5.0
"""Times its fastest at which a joint was not moved but is said to be elsewhere."""
LEAST_JUMP = 0.05
"""rad or m that a position may always change by: stamps of a driver are not that exact."""
SETTLED = 0.2
"""Seconds without a jump after which a joint is believed again."""


class BackInTime(Exception):  # noqa: N818
    """A stamp so far before its stream's newest one that time itself must have gone back."""


@dataclass
class Stream:
    """What is kept of every stream, whatever it carries.

    stamps: seconds, rising; the samples stand beside them. received: messages that came.
    newest_received: when the newest came, seconds. dropped: by reason. repeats: messages in a row
    that carried a stamp already seen.
    """

    name: str
    depth: int
    reorder: float
    stamps: list[float] = field(default_factory=list)
    samples: list = field(default_factory=list)
    received: int = 0
    newest_received: float = math.nan
    repeats: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def admit(self, stamp: float, received: float) -> bool:
        """Count a message; False when its stamp cannot be used. Raises BackInTime."""
        self.received += 1
        self.newest_received = received
        if not math.isfinite(stamp) or stamp <= 0.0:
            self.dropped["zero_stamp"] += 1
            return False
        if not self.stamps:
            return True
        if stamp < self.stamps[-1] - self.reorder:
            raise BackInTime(self.name)
        at = bisect.bisect_left(self.stamps, stamp)
        if at < len(self.stamps) and self.stamps[at] == stamp:
            self.repeats += 1
            self.dropped["repeated_stamp"] += 1
            return False
        return True

    def insert(self, stamp: float, sample: object) -> None:
        at = bisect.bisect_right(self.stamps, stamp)
        self.repeats = 0
        self.stamps.insert(at, stamp)
        self.samples.insert(at, sample)
        if len(self.stamps) > self.depth:
            del self.stamps[0], self.samples[0]

    def clear(self) -> None:
        self.stamps.clear()
        self.samples.clear()
        self.repeats = 0

    def check_came(self) -> None:
        """Raise NotReady while there is no sample, saying why there is none."""
        if self.stamps:
            return
        if self.dropped["zero_stamp"]:
            raise NotReady(
                Reason.ZERO_STAMP,
                self.name,
                f"{self.dropped['zero_stamp']} messages came without a stamp",
            )
        if self.dropped["bad_image"]:
            raise NotReady(
                Reason.NEVER_CAME,
                self.name,
                f"{self.dropped['bad_image']} messages came, none with pixels",
            )
        raise NotReady(Reason.NEVER_CAME, self.name, "no message has come yet")

    def not_after(self, stamp: float) -> int | None:
        """Position of the newest sample not after a time."""
        at = bisect.bisect_right(self.stamps, stamp) - 1
        return at if at >= 0 else None


@dataclass
class CameraBuffer(Stream):
    """Images of one camera, and since when its pixels have not changed.

    unchanged_since: stamp of the first of the identical images. unchanged: how many came in a row.
    posture: joint positions when the pixels last changed.
    """

    unchanged_since: float = math.nan
    unchanged: int = 0
    posture: dict[str, float] = field(default_factory=dict)

    def add(
        self, stamp: float, image: np.ndarray, received: float, posture: Mapping[str, float]
    ) -> None:
        if image.ndim != 3 or image.size == 0:
            self.received += 1
            self.dropped["bad_image"] += 1
            return
        if not self.admit(stamp, received):
            return
        if self.samples and _same(self.samples[-1], image):
            self.unchanged += 1
            for joint, position in posture.items():
                self.posture.setdefault(joint, position)
        else:
            self.unchanged, self.unchanged_since = 0, stamp
            self.posture = dict(posture)
        self.insert(stamp, image)

    def clear(self) -> None:
        super().clear()
        self.unchanged, self.unchanged_since = 0, math.nan


@dataclass
class JointBuffer(Stream):
    """Positions of one joint. source: who publishes it. bad_stamp: of the newest value that was
    not finite. speed: a second, the fastest that the joint can move. jump: of the newest sample
    that nothing could have moved it to: stamp, position before, position. jumps: how many came in a
    row; one alone is a robot that was set elsewhere, as a simulator is at a reset."""

    speed: float = math.inf
    jump: tuple[float, float, float] = (-math.inf, 0.0, 0.0)
    jumps: int = 0
    source: str = ""
    bad_stamp: float = -math.inf
    bad_value: float = 0.0

    def add(self, stamp: float, position: float, received: float) -> None:
        if not self.admit(stamp, received):
            return
        if not math.isfinite(position):
            self.bad_stamp, self.bad_value = stamp, position
            self.dropped["non_finite"] += 1
            return
        if self.stamps:
            apart = abs(position - self.samples[-1])
            elapsed = abs(stamp - self.stamps[-1])  # a late message lies before the newest
            if apart > IMPLAUSIBLE * self.speed * elapsed + LEAST_JUMP:
                self.jumps = self.jumps + 1 if stamp - self.jump[0] < SETTLED else 1
                self.jump = (stamp, self.samples[-1], position)
        self.insert(stamp, position)

    def at(
        self,
        anchor: float,
        now: float,
        max_age: float,
        seen: Mapping[str, Iterable[str]],
        future: float,
    ) -> float:
        """Position at a time, interpolated between its neighbours; the newest one if none is newer
        than the anchor. seen: publisher -> joint names it brings. future: how far ahead of ``now``
        its newest stamp may be. Raises NotReady."""
        if self.bad_stamp > (self.stamps[-1] if self.stamps else 0.0):
            raise NotReady(Reason.NON_FINITE, self.name, f"position is {self.bad_value}")
        if not self.stamps and seen and not self.dropped["zero_stamp"]:
            brought = {source: sorted(names) for source, names in seen.items()}
            raise NotReady(
                Reason.JOINT_MISSING,
                self.name,
                f"no joint state has a position of it; publishers bring {brought}",
            )
        self.check_came()
        age = now - self.stamps[-1]
        if self.stamps[-1] - self.jump[0] < SETTLED:
            _, was, is_ = self.jump
            why = (
                "do two publishers send it?"
                if self.jumps > 1
                else f"set elsewhere? It is believed again after {SETTLED:g} s"
            )
            text = f"from {was:.3f} to {is_:.3f} between two messages: {why}"
            raise NotReady(Reason.JUMPING, self.name, text)
        if age > max_age:
            raise NotReady(
                Reason.TOO_OLD, self.name, f"newest is {age:.3f} s old, allowed {max_age:g} s"
            )
        if -age > future:
            # What is stamped with the images' time was measured before: it would be taken for new.
            raise NotReady(
                Reason.FUTURE_STAMP, self.name, f"stamped {-age:.3f} s ahead of this clock"
            )
        before = self.not_after(anchor)
        if before is None:
            raise NotReady(
                Reason.SKEW,
                self.name,
                f"first sample is {self.stamps[0] - anchor:.3f} s after the images",
            )
        t0, p0 = self.stamps[before], self.samples[before]
        if before + 1 == len(self.stamps):
            return p0
        t1, p1 = self.stamps[before + 1], self.samples[before + 1]
        if t1 - t0 > max_age:
            raise NotReady(
                Reason.TOO_OLD, self.name, f"a gap of {t1 - t0:.3f} s around the images' time"
            )
        return p0 + (p1 - p0) * (anchor - t0) / (t1 - t0)

    def clear(self) -> None:
        super().clear()
        self.bad_stamp, self.source = -math.inf, ""
        self.jump, self.jumps = (-math.inf, 0.0, 0.0), 0


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal pixels. A sparse grid answers for nearly every live pair; the whole is rarely read."""
    if a.shape != b.shape or not np.array_equal(a[::16, ::16], b[::16, ::16]):
        return False
    return np.array_equal(a, b)
