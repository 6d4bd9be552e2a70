# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot's processor steps: those that are done here in one way or another. A step that is left
out gives other actions without a word, so an unknown one is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from phyai_ros.engine.fields import whole
from phyai_ros.engine.types import PolicyError

TOKENIZER = "tokenizer_processor"
KNOWN = frozenset(
    {
        # done by every family, or nothing to do for one observation on one device
        "rename_observations_processor",
        "observation_processor",
        "to_batch_processor",
        "device_processor",
        "normalizer_processor",
        "unnormalizer_processor",
        "relative_actions_processor",
        "absolute_actions_processor",
        # done by the families that have a prompt
        TOKENIZER,
        "pi0_new_line_processor",
        "smolvla_new_line_processor",
        "pi05_prepare_state_tokenizer_processor_step",
    }
)


def check(file: Path, names: Sequence[str], also: Collection[str]) -> None:
    """names: the steps of a processor file. also: those that the family knows beside ``KNOWN``.
    Raises PolicyError for any other."""
    for name in names:
        if name not in KNOWN and name not in also:
            raise PolicyError(
                f"{file}: step {name!r} is not supported here; known: "
                f"{', '.join(sorted(KNOWN | set(also)))}. If it changes nothing that the policy "
                "sees or says, take it out of the file"
            )


def prompt_limit(config: Mapping[str, Any], otherwise: Any, file: Path) -> int:
    """Most tokens of a prompt, longer ones are cut. config: of the tokenizer's step in ``file``.
    otherwise: where the step does not say."""
    if config.get("truncation", True) is not True:
        raise PolicyError(
            f"{file}: {TOKENIZER}.truncation: expected true, found {config['truncation']!r}"
        )
    return whole(config.get("max_length") or otherwise, f"{file}: {TOKENIZER}.max_length")
