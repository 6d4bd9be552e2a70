# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Instruction and state -> the prompt's text, in the pieces that the tokenizer gets, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """One call of the tokenizer. special: whether it may add what it adds by itself (the BOS)."""

    text: str
    special: bool


Prompt = Callable[[str, np.ndarray], Sequence[Piece]]
"""(instruction, normalised state [state_dim]) -> pieces."""

BINS = np.linspace(-1, 1, 257)[:-1]


def clean(instruction: str) -> str:
    """openpi's: no blanks around it, underscores and line ends are blanks."""
    return instruction.strip().replace("_", " ").replace("\n", " ")


def lerobot_pi0(instruction: str, state: np.ndarray) -> Sequence[Piece]:
    """The newline at its end is part of the one text."""
    return (Piece(instruction if instruction.endswith("\n") else instruction + "\n", True),)


def openpi_pi0(instruction: str, state: np.ndarray) -> Sequence[Piece]:
    """The newline, which starts the answer, is tokenized by itself."""
    return Piece(clean(instruction), True), Piece("\n", False)


def pi05(instruction: str, state: np.ndarray) -> Sequence[Piece]:
    """openpi, and LeRobot since 0.5.0."""
    bins = " ".join(map(str, discretise(state)))
    return (Piece(f"Task: {clean(instruction)}, State: {bins};\nAction: ", True),)


def pi05_padded(width: int) -> Prompt:
    """LeRobot up to 0.4.4, which padded the state with zeros (bin 128) to ``width`` first."""

    def prompt(instruction: str, state: np.ndarray) -> Sequence[Piece]:
        return pi05(instruction, np.pad(state, (0, max(0, width - len(state)))))

    return prompt


def discretise(state: np.ndarray) -> np.ndarray:
    """256 equal bins of [-1, 1]; -1 below, 255 above."""
    return np.digitize(state, BINS) - 1
