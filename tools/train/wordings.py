# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Instructions to train on: the task's own wordings, and ways in which people might say the same.

Beside that, words other than the colour are replaced at random, so that an unknown wording is no
surprise and the colour is what the policy goes by.
"""

from __future__ import annotations

import re

import numpy as np
from tokenizers import Tokenizer

from phyai_ros.sim import task
from phyai_ros.sim.scene import COLOURS

MORE = (
    "reach the {} cube",
    "touch the {} block",
    "approach the {} block",
    "go to the {} cube",
    "go to {}",
    "{}",
    "the {} block",
    "the {} one please",
    "move over the {} block",
    "move above the {} cube",
    "move the arm to the {} block",
    "place the gripper above the {} block",
    "find the {} block",
    "hover over the {} block",
    "point to the {} block",
    "now reach the {} block",
    "please go to the {} block",
    "can you reach the {} cube",
)
SHARE = 0.35
"""Samples whose instruction is one of ``MORE``."""
REPLACED = 0.15
"""Chance of a word to be replaced, in half of the samples."""
_WORD = re.compile("\u0120?[a-z]+")  # byte-level BPE writes a leading space as this letter


def instructions() -> list[str]:
    """All of them, in a fixed order."""
    return [w.format(c) for w in (*task.WORDINGS, *MORE) for c in COLOURS]


def reword(instruction: str, colour: str, rng: np.random.Generator) -> str:
    """Now and then another wording for the same colour."""
    if rng.random() < SHARE:
        return MORE[rng.integers(len(MORE))].format(colour)
    return instruction


def _colour(token: str) -> bool:
    return token.lstrip("\u0120") in COLOURS


def replaceable(tokenizer: Tokenizer, ids: np.ndarray, start: int = 0) -> np.ndarray:
    """Which of ids [instructions, length] are words and no colours, from column ``start`` on."""
    tokens = tokenizer.get_vocab()
    words = [i for t, i in tokens.items() if _WORD.fullmatch(t) and not _colour(t)]
    colours = [i for t, i in tokens.items() if _colour(t)]
    if not np.isin(ids, colours).any(axis=1).all():
        raise ValueError("an instruction whose colour is not one token")
    return np.isin(ids, words) & (np.arange(ids.shape[1]) >= start)


def fillers(tokenizer: Tokenizer) -> np.ndarray:
    """Token ids that may stand in for a word: all pieces of text but colours and numbers."""
    special = set(tokenizer.get_added_tokens_decoder())
    return np.array(
        sorted(
            i
            for t, i in tokenizer.get_vocab().items()
            if i not in special and not _colour(t) and not re.search("[0-9]", t)
        )
    )
