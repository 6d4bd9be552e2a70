# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Text to token ids, with the checkpoint's own tokenizer."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import sentencepiece
import tokenizers

from phyai_ros.engine import hub, notices
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.files import check_inside, is_there, read_json
from phyai_ros.engine.types import PolicyError

_log = logging.getLogger(__name__)


class Tokenizer(Protocol):
    """Text -> ids, whatever file it was read from."""

    def encode(self, text: str, *, special: bool = True, most: int | None = None) -> list[int]:
        """special: let the tokenizer add what it adds by itself (a BOS, say). most: tokens, of
        which a longer text loses those of its end, or of its start where the tokenizer's files say
        so; never what was added."""
        ...

    def id(self, token: str) -> int | None:
        """The id of one token, None when there is none."""
        ...


class FastTokenizer:
    """A tokenizer.json. side: where a text that is too long is cut, left (its start) or right;
    None, right as transformers has it where no file says, and a cut is told as one of a guess."""

    def __init__(self, path: Path, side: str | None = "right"):
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises a bare Exception
            raise PolicyError(f"{path}: not a tokenizer ({error})") from None
        self._path, self._side = path, side
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, text: str, *, special: bool = True, most: int | None = None) -> list[int]:
        if most is not None:
            if self._side is None:
                notices.once(
                    _log,
                    f"{self._path.parent / _CONFIG}: no such file, whose truncation_side says "
                    "which end a prompt that is too long loses: taken to be right, its end (left "
                    "with SmolVLA's published backbone); copy it from where the tokenizer is",
                )
            self._tokenizer.enable_truncation(most, direction=self._side or "right")
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=special).ids
        finally:
            self._tokenizer.no_truncation()
        return ids

    def id(self, token: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(token)
        return found


class SentencePiece:
    """A sentencepiece model; ``special`` puts its BOS first."""

    def __init__(self, path: Path):
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise PolicyError(f"{path}: not a sentencepiece model ({error})") from None

    def encode(self, text: str, *, special: bool = True, most: int | None = None) -> list[int]:
        ids: list[int] = self._processor.encode(text, add_bos=special)
        return ids[:most]

    def id(self, token: str) -> int | None:
        found = int(self._processor.piece_to_id(token))
        return None if found == self._processor.unk_id() else found


_FAST, _CONFIG = "tokenizer.json", "tokenizer_config.json"
_SENTENCEPIECE = ("tokenizer.model", "paligemma_tokenizer.model")


def load(checkpoint: Checkpoint, name: str | None = None) -> Tokenizer:
    """The tokenizer that the checkpoint names, where ``name`` is a directory of its own (LeRobot
    0.6.2 saves one); else the one beside the weights; else that of the hub repository or directory
    ``name`` (the backbone's, from which the real ecosystems take it)."""
    own = checkpoint.root / (name or "")
    inside = name and not Path(name).is_absolute() and ".." not in Path(name).parts
    for place in (own, checkpoint.root) if inside else (checkpoint.root,):
        found = _in_directory(place, checkpoint.root)
        if found is not None:
            return found
    missing = f"{checkpoint.root}: no tokenizer.json or {' / '.join(_SENTENCEPIECE)} in it"
    remedy = (
        "copy the tokenizer.json that the checkpoint was trained with into that directory, and the "
        "tokenizer_config.json beside it"
    )
    if not name:
        raise PolicyError(f"{missing}, and it names no place to take one from; {remedy}")
    if not os.path.isdir(os.path.expanduser(name)) and not hub.is_id(name):
        raise PolicyError(
            f"{missing}, and its backbone {name!r} is neither a directory nor a hub id "
            f"(owner/name); {remedy}"
        )
    try:
        root = hub.resolve(name, patterns=("tokenizer*", "*.model"))
    except PolicyError as error:
        raise PolicyError(
            f"{missing}, and its backbone's cannot be had ({error}); {remedy}"
        ) from None
    found = _in_directory(root, root)
    if found is None:
        raise PolicyError(f"{missing}, nor in {root}, where its backbone {name!r} is; {remedy}")
    return found


def _in_directory(place: Path, root: Path) -> Tokenizer | None:
    """root: the checkpoint's directory, out of which no link may lead."""
    for name in (_FAST, *_SENTENCEPIECE):
        if is_there(place / name):
            check_inside(place / name, root)
            if name == _FAST:
                return FastTokenizer(place / name, _side(place / _CONFIG, root))
            return SentencePiece(place / name)
    return None


def _side(file: Path, root: Path) -> str | None:
    """Where transformers cuts with this tokenizer: the backbones of some policies say left. None
    where the file is not there."""
    if not is_there(file):
        return None
    side = read_json(file, root).get("truncation_side") or "right"
    if side not in ("left", "right"):
        raise PolicyError(f"{file}: truncation_side: expected left or right, found {side!r}")
    return str(side)


def check_known(ids: Sequence[int], vocabulary: int, text: str) -> None:
    """Raises PolicyError for a token that the model has no embedding of: tokenizers may know more
    than the model does (PaliGemma's has an ``<image>``), and on a GPU an index out of range ends
    the process's use of it. text: what ``ids`` are of."""
    most = max(ids, default=0)
    if most >= vocabulary:
        raise PolicyError(
            f"instruction: expected tokens below the model's {vocabulary}, found {most} in "
            f"{text[:200]!r}"
        )


class Limit:
    """Cuts prompts to ``most`` tokens, as the references do, and says so once. vocabulary: as for
    ``check_known``. checkpoint: named in that warning."""

    def __init__(self, most: int, vocabulary: int, checkpoint: str):
        self.most, self._vocabulary, self._checkpoint = most, vocabulary, checkpoint
        self._warned = False

    def encode(self, tokenizer: Tokenizer, pieces: Sequence[tuple[str, bool]]) -> list[int]:
        """pieces: of one prompt, each a text and whether the tokenizer may add what it adds by
        itself. One piece is cut as the tokenizer cuts (LeRobot), several at their end (openpi).
        Raises what ``check_known`` raises."""
        ids = [i for text, special in pieces for i in tokenizer.encode(text, special=special)]
        (text, special), whole = pieces[0], len(ids)
        if whole > self.most:
            if len(pieces) == 1:
                ids = tokenizer.encode(text, special=special, most=self.most)
            ids = ids[: self.most]
        check_known(ids, self._vocabulary, text)
        if whole > self.most and not self._warned:
            self._warned = True
            _log.warning(
                "%s: a prompt of %d tokens is cut to the model's %d, as the reference does: %r",
                self._checkpoint,
                whole,
                self.most,
                text[:200],
            )
        return ids


def pad(
    rows: Sequence[Sequence[int]], *, value: int, left: bool, length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Token rows -> ids int64 [B, L] and mask bool [B, L] (True = real), to ``length`` or the
    longest row. Rows longer than ``length`` are the caller's to cut."""
    width = length if length is not None else max(map(len, rows))
    ids = np.full((len(rows), width), value, np.int64)
    mask = np.zeros((len(rows), width), bool)
    for i, row in enumerate(rows):
        where = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, where] = row
        mask[i, where] = True
    return ids, mask
