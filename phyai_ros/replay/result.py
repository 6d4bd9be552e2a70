# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a replay gives: observations' hashes, chunks, commands, refusals; and its file."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phyai_ros.control.states import Command
from phyai_ros.engine.types import Observation
from phyai_ros.nodes import convert
from phyai_ros.nodes.answering import Answered

FORMAT = 1
_LARGEST = 1 << 31
"""Bytes that one array of a file may unpack to."""


class ResultError(ValueError):
    """A result file that cannot be used; the text names file, expected and found."""


@dataclass(frozen=True)
class ResultFile:
    """Arrays by name, and what they are about.

    about: JSON values: joints, cameras, states, step, policy, precision, seed, mode, handoff,
    refusals (list of topic, kind, count, first), unanswered and delayed (lists of request, reason).
    Per answer [n]: request_id, epoch, stamp_ns, image_hash uint8 [n, cameras, 32], text_hash
    uint8 [n, 32], state float64 [n, state_dim], chunk float64 [n, horizon, joints], live float64
    like chunk (what was recorded; NaN where nothing was). Per tick [m]: tick, tick_ns, state_code,
    tick_request, tick_index, limited, command float64 [m, joints] (NaN: none sent), live_command.
    """

    about: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]


@dataclass
class Collector:
    """Fills a ResultFile as the replay goes. joints: columns. cameras: checkpoint's keys."""

    joints: Sequence[str]
    cameras: Sequence[str]
    horizon: int
    answers: list[dict[str, Any]] = field(default_factory=list)
    ticks: list[dict[str, Any]] = field(default_factory=list)
    refusals: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    unanswered: list[dict[str, Any]] = field(default_factory=list)
    delayed: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, answered: Answered, live: np.ndarray | None = None) -> None:
        chunk, seen = answered.chunk, answered.observation
        shape = chunk.positions.shape
        self.answers.append(
            {
                "request_id": np.uint64(chunk.request_id),
                "epoch": np.uint64(chunk.epoch),
                "stamp_ns": np.int64(convert.seconds_to_ns(chunk.stamp)),
                "image_hash": np.array([_image_hash(seen, key) for key in self.cameras]),
                "text_hash": _digest(seen.instruction.encode()),
                "state": np.asarray(seen.state, np.float64),
                "chunk": chunk.positions,
                "live": np.full(shape, np.nan) if live is None else live,
            }
        )

    def tick(self, command: Command, now: float, live: np.ndarray | None = None) -> None:
        none = np.full(len(self.joints), np.nan)
        self.ticks.append(
            {
                "tick": np.int64(command.tick),
                "tick_ns": np.int64(convert.seconds_to_ns(now)),
                "state_code": np.uint8(command.state),
                "tick_request": np.uint64(command.request_id),
                "tick_index": np.int64(command.index),
                "limited": np.bool_(command.limited),
                "command": none if command.positions is None else command.positions,
                "live_command": none if live is None else live,
            }
        )

    def refuse(self, topic: str, kind: str, text: str, now: float) -> None:
        """A message that was not used."""
        entry = self.refusals.setdefault(
            (topic, kind), {"topic": topic, "kind": kind, "count": 0, "first": text, "at": now}
        )
        entry["count"] += 1

    def leave(self, request_id: int, now: float, reason: str, stream: str, text: str) -> None:
        """A request without a chunk."""
        self.unanswered.append(
            {"request": request_id, "at": now, "reason": reason, "stream": stream, "text": text}
        )

    def delay(self, request_id: int, now: float, reason: str, stream: str, text: str) -> None:
        """A request that got its chunk later, for lack of a usable frame."""
        self.delayed.append(
            {"request": request_id, "at": now, "reason": reason, "stream": stream, "text": text}
        )

    def finish(self, about: Mapping[str, Any], state_dim: int) -> ResultFile:
        joints, horizon = len(self.joints), self.horizon
        empty: dict[str, np.ndarray] = {
            "request_id": np.zeros(0, np.uint64),
            "epoch": np.zeros(0, np.uint64),
            "stamp_ns": np.zeros(0, np.int64),
            "image_hash": np.zeros((0, len(self.cameras), 32), np.uint8),
            "text_hash": np.zeros((0, 32), np.uint8),
            "state": np.zeros((0, state_dim)),
            "chunk": np.zeros((0, horizon, joints)),
            "live": np.zeros((0, horizon, joints)),
            "tick": np.zeros(0, np.int64),
            "tick_ns": np.zeros(0, np.int64),
            "state_code": np.zeros(0, np.uint8),
            "tick_request": np.zeros(0, np.uint64),
            "tick_index": np.zeros(0, np.int64),
            "limited": np.zeros(0, np.bool_),
            "command": np.zeros((0, joints)),
            "live_command": np.zeros((0, joints)),
        }
        arrays: dict[str, np.ndarray] = {}
        for name, nothing in empty.items():
            rows = self.answers if self.answers and name in self.answers[0] else self.ticks
            found = [row[name] for row in rows if name in row]
            arrays[name] = np.stack(found) if found else nothing
        told = {
            **about,
            "format": FORMAT,
            "joints": list(self.joints),
            "cameras": list(self.cameras),
            "refusals": [self.refusals[key] for key in sorted(self.refusals)],
            "unanswered": self.unanswered,
            "delayed": self.delayed,
        }
        return ResultFile(told, arrays)


def save(result: ResultFile, path: Path) -> None:
    """The same result gives the same bytes. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.about, sort_keys=True, ensure_ascii=False).encode()
    about = {"about": np.frombuffer(text, np.uint8)}
    with path.open("wb") as file:
        np.savez_compressed(file, **about, **dict(sorted(result.arrays.items())))  # type: ignore[arg-type]


def load(path: Path) -> ResultFile:
    """Raises ResultError."""
    try:
        if not zipfile.is_zipfile(path):  # numpy would then speak of pickle, and how to allow it
            path.open("rb").close()
            raise ResultError(f"{path}: not a replay's result: expected a .npz file")
        with np.load(path, allow_pickle=False) as file:
            for info in file.zip.infolist():
                if info.file_size > _LARGEST:
                    raise ResultError(f"{path}: {info.filename} is {info.file_size} bytes large")
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop("about").tobytes())
        found = about.get("format")
    except FileNotFoundError:
        raise ResultError(f"{path}: there is no such file") from None
    except ResultError:
        raise
    except Exception as error:  # numpy, zipfile and json each have their own kinds
        raise ResultError(f"{path}: not a replay's result: {error}") from error
    if found != FORMAT:
        raise ResultError(f"{path}: expected format {FORMAT}, found {found}; write it anew")
    missing = sorted(set(Collector([], [], 0).finish({}, 0).arrays) - set(arrays))
    if missing:
        raise ResultError(f"{path}: arrays are missing: {', '.join(missing)}")
    return ResultFile(about, arrays)


def _image_hash(observation: Observation, key: str) -> np.ndarray:
    """Of shape and pixels; zeros for a camera that the frame lacks."""
    image = observation.images.get(key)
    if image is None:
        return np.zeros(32, np.uint8)
    return _digest(repr(image.shape).encode() + np.ascontiguousarray(image).tobytes())


def _digest(data: bytes) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(data).digest(), np.uint8)
