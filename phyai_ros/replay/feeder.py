# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag's images and joint states into the aligner, and a name for each that is not used."""

from __future__ import annotations

from collections import Counter
from typing import Any

from phyai_ros.nodes.convert import MessageError
from phyai_ros.nodes.frame_source import FrameSource, deliver_image, make_aligner
from phyai_ros.replay.events import ImageCame, JointsCame
from phyai_ros.replay.result import Collector
from phyai_ros.replay.session import Session

_WORDS = {
    "zero_stamp": "it has no stamp",
    "repeated_stamp": "its stamp came before",
    "bad_image": "it has no pixels",
    "non_finite": "a position is not a number",
}


class Feeder:
    """now: seconds, the bag's clock; whoever drives the replay sets it. settings: of AlignConfig,
    where they are not to be the live ones."""

    def __init__(self, session: Session, collector: Collector, **settings: Any) -> None:
        self.now = 0.0
        self.aligner = make_aligner(session.robot, session.binding, **settings)
        self.source = FrameSource(self.aligner, lambda: self.now)
        self._collector = collector
        self._dropped: dict[str, Counter[str]] = {}
        self._went_back = 0

    def image(self, event: ImageCame) -> None:
        try:
            deliver_image(self.source, event.camera, event.sample)
        except MessageError as error:
            self._collector.refuse(event.topic, "wrong_image", str(error), event.now)
        self._name_dropped(event.topic, event.sample.stamp, event.now)

    def joints(self, event: JointsCame) -> None:
        self.aligner.add_joints(event.topic, event.sample.stamp, event.sample.positions, self.now)
        self._name_dropped(event.topic, event.sample.stamp, event.now)

    def clear(self) -> None:
        self.source.clear()

    def _name_dropped(self, topic: str, stamp: float, now: float) -> None:
        went_back = self.aligner.counters.time_went_back
        if went_back != self._went_back:
            self._went_back = went_back
            text = f"its stamp {stamp:.3f} goes back in time: everything older was forgotten"
            self._collector.refuse(topic, "time_went_back", text, now)
        dropped = self.aligner.dropped()
        for stream, counts in dropped.items():
            for kind in counts - self._dropped.get(stream, Counter()):
                text = f"{stream}: {_WORDS.get(kind, kind)} (stamp {stamp:.3f})"
                self._collector.refuse(topic, kind, text, now)
        self._dropped = dropped
