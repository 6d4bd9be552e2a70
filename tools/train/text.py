# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A small tokenizer in Qwen's layout, and GR00T's prompts as token tables."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}{%- else %}"
    "{%- for part in message.content %}{%- if part.type == 'image' %}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif part.type == 'text' %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def make_tokenizer(corpus: list[str], merges: int = 120) -> Tokenizer:
    """Byte-level BPE: any text has an encoding; the task's words become single tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    return tokenizer


def formalise(instruction: str) -> str:
    """GR00T's ``formalize_language``: lower case, no punctuation."""
    return re.sub(r"[^\w\s]", "", instruction.lower())


def chat(instruction: str, views: int, view_tokens: int) -> str:
    image = "<|vision_start|>" + "<|image_pad|>" * view_tokens + "<|vision_end|>"
    return f"<|im_start|>user\n{image * views}{formalise(instruction)}<|im_end|>\n"


@dataclass(frozen=True)
class PromptTable:
    """Every instruction of the task as token ids, padded on the right.

    prefix: ids before the instruction. ids int64, valid bool [instructions, length]."""

    instructions: tuple[str, ...]
    prefix: list[int]
    ids: np.ndarray
    valid: np.ndarray
    vocab: int
    image_token: int

    @property
    def length(self) -> int:
        return self.ids.shape[1]


def prompt_table(
    tokenizer: Tokenizer, instructions: list[str], views: int, view_tokens: int
) -> PromptTable:
    encoded = [tokenizer.encode(chat(i, views, view_tokens)).ids for i in instructions]
    prefix = tokenizer.encode(chat("", views, view_tokens)).ids[:-2]
    length = -(-max(len(e) for e in encoded) // 8) * 8
    pad = tokenizer.token_to_id("<|endoftext|>")
    ids = np.full((len(encoded), length), pad, dtype=np.int64)
    valid = np.zeros((len(encoded), length), dtype=bool)
    for row, e in enumerate(encoded):
        assert e[: len(prefix)] == prefix, "an instruction's tokens merge into the prompt's"
        ids[row, : len(e)], valid[row, : len(e)] = e, True
    vocab = -(-tokenizer.get_vocab_size() // 64) * 64
    image = tokenizer.token_to_id("<|image_pad|>")
    assert image is not None
    return PromptTable(tuple(instructions), prefix, ids, valid, vocab, image)


def save_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "TokenizersBackend",
                "backend": "tokenizers",
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "padding_side": "left",
            },
            indent=1,
        )
    )
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def make_pi05_tokenizer(corpus: list[str]) -> Tokenizer:
    """Byte-level BPE in which every state number of pi0.5's prompt is one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    numbers = [f" {i}" for i in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<pad>", "<eos>", "<bos>", "<unk>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        [*corpus, *numbers * 2, "Task:", " State:", ";\nAction: "], trainer
    )
    # Below the range the bin is -1, which the pre-tokenizer would split in two.
    tokenizer.add_tokens([AddedToken(" -1", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))]
    )
    return tokenizer


@dataclass(frozen=True)
class StatePrompts:
    """pi0.5's prompts: ids int64 [instructions, length] with -1 - i in the place of state number
    i; valid bool alike; numbers int64 [257], the token of bin -1, 0, ... 255."""

    instructions: tuple[str, ...]
    ids: np.ndarray
    valid: np.ndarray
    numbers: np.ndarray
    vocab: int


def state_prompts(tokenizer: Tokenizer, instructions: list[str], states: int) -> StatePrompts:
    numbers = []
    for i in range(-1, 256):
        token = tokenizer.encode(f" {i}", add_special_tokens=False).ids
        assert len(token) == 1, f"state number {i} takes {len(token)} tokens"
        numbers.append(token[0])
    rows = []
    for instruction in instructions:
        head = tokenizer.encode(f"Task: {instruction}, State:").ids
        tail = tokenizer.encode(";\nAction: ", add_special_tokens=False).ids
        rows.append([*head, *(-1 - i for i in range(states)), *tail])
        whole = f"Task: {instruction}, State: " + " ".join("7" for _ in range(states))
        filled = [numbers[8] if t < 0 else t for t in rows[-1]]
        assert tokenizer.encode(whole + ";\nAction: ").ids == filled, instruction
    length = -(-max(map(len, rows)) // 8) * 8
    ids = np.full((len(rows), length), tokenizer.token_to_id("<pad>"), dtype=np.int64)
    valid = np.zeros((len(rows), length), dtype=bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)], valid[i, : len(row)] = row, True
    vocab = -(-tokenizer.get_vocab_size() // 64) * 64
    return StatePrompts(tuple(instructions), ids, valid, np.array(numbers), vocab)
