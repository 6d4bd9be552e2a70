# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which images of several cameras belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phyai_ros.control.frame import AlignConfig, CameraStream, NotReady, Reason
from phyai_ros.control.streams import CameraBuffer

FROZEN_MESSAGES = 3
"""Identical messages in a row before a camera may be called frozen."""


class CameraSet:
    """The images of each camera that are remembered, and the newest of them that are of one moment.

    Refuses with NotReady, which names the camera: none came, too old, from the future, frozen, or
    too far from the others.
    """

    def __init__(self, cameras: Sequence[CameraStream], config: AlignConfig) -> None:
        self._config = config
        self._streams = {c.name: c for c in cameras}
        self.buffers = {c.name: CameraBuffer(c.name, c.depth, config.reorder) for c in cameras}

    def newest(self, now: float, posture: Mapping[str, float]) -> dict[str, int]:
        """Camera -> position in its buffer, for the newest set within max_skew; of optional cameras
        those that fit to it. now: seconds. posture: where the joints are, by which a picture that
        stays the same is known to be frozen."""
        for name, stream in self._streams.items():
            if not stream.optional:
                self._check(name, now, posture)
        chosen = self._set(now)
        self._check_ages(chosen, now)
        self._add_optional(chosen, now, posture)
        return chosen

    def _check(self, name: str, now: float, posture: Mapping[str, float]) -> None:
        buffer = self.buffers[name]
        buffer.check_came()
        stream = self._streams[name]
        newest = buffer.not_after(now + self._config.future)
        if newest is None:
            raise NotReady(
                Reason.FUTURE_STAMP,
                name,
                f"stamped {buffer.stamps[0] - now:.3f} s ahead of this clock",
            )
        age = now - buffer.stamps[newest]
        if age > stream.max_age:
            if buffer.repeats >= FROZEN_MESSAGES:
                raise NotReady(
                    Reason.FROZEN,
                    name,
                    f"{buffer.repeats} messages in a row carry the stamp "
                    f"{buffer.stamps[-1]:.3f}, {age:.3f} s old",
                )
            raise NotReady(
                Reason.TOO_OLD, name, f"newest is {age:.3f} s old, allowed {stream.max_age:g} s"
            )
        still = buffer.stamps[newest] - buffer.unchanged_since
        if buffer.unchanged >= FROZEN_MESSAGES and still >= self._config.frozen_after:
            joint, moved = _moved_since(buffer, posture)
            if moved >= self._config.frozen_motion:
                raise NotReady(
                    Reason.FROZEN,
                    name,
                    f"pixels unchanged for {still:.2f} s while {joint} moved by {moved:.3f}",
                )

    def _set(self, now: float) -> dict[str, int]:
        """Of the cameras that are not optional."""
        needed = [b for b in self.buffers.values() if not self._streams[b.name].optional]
        anchors = {s for b in needed for s in b.stamps if s <= now + self._config.future}
        newest: dict[str, int] | None = None
        spread: dict[str, float] = {}
        for anchor in sorted(anchors, reverse=True):
            chosen: dict[str, int] = {}
            for buffer in needed:
                at = buffer.not_after(anchor)
                if at is None:
                    break
                chosen[buffer.name] = at
            if len(chosen) < len(needed):
                break
            stamps = {n: self.buffers[n].stamps[at] for n, at in chosen.items()}
            spread = spread or stamps
            if max(stamps.values()) - min(stamps.values()) <= self._config.max_skew:
                newest = chosen
                break
        if newest is None:
            laggard = min(spread, key=spread.__getitem__, default=needed[0].name)
            behind = max(spread.values(), default=0.0) - spread.get(laggard, 0.0)
            raise NotReady(
                Reason.SKEW,
                laggard,
                f"{behind:.3f} s behind the newest camera, allowed {self._config.max_skew:g} s, "
                f"and no older set is closer",
            )
        return newest

    def _check_ages(self, chosen: Mapping[str, int], now: float) -> None:
        for name, at in chosen.items():
            age, allowed = now - self.buffers[name].stamps[at], self._streams[name].max_age
            if age > allowed:
                raise NotReady(
                    Reason.TOO_OLD,
                    name,
                    f"the newest complete set has an image {age:.3f} s old, allowed {allowed:g} s",
                )

    def _add_optional(
        self, chosen: dict[str, int], now: float, posture: Mapping[str, float]
    ) -> None:
        anchor = max(self.buffers[n].stamps[at] for n, at in chosen.items())
        for name, stream in self._streams.items():
            if not stream.optional:
                continue
            try:
                self._check(name, now, posture)
            except NotReady:
                continue
            stamps, at = self.buffers[name].stamps, self.buffers[name].not_after(anchor)
            # The newest image may be of after the anchor, and the one before it too old.
            if at is None or now - stamps[at] > stream.max_age:
                continue
            if anchor - stamps[at] <= self._config.max_skew:
                chosen[name] = at


def _moved_since(buffer: CameraBuffer, posture: Mapping[str, float]) -> tuple[str, float]:
    """The joint that moved the most since the camera's picture changed, and by how much."""
    moves = {j: abs(p - buffer.posture[j]) for j, p in posture.items() if j in buffer.posture}
    joint = max(moves, key=moves.__getitem__, default="")
    return joint, moves.get(joint, 0.0)
