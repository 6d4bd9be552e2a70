# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What counts as an instruction."""

from __future__ import annotations

LONGEST = 2000
"""Characters; far beyond what any policy's tokenizer keeps, short enough for a message a tick."""


def clean_instruction(text: str) -> str:
    """White space tidied; raises ValueError for one that says nothing or is too long to be meant.

    Nothing is cut here: half a sentence is another task. How many tokens a policy reads of it is
    the policy's to say.
    """
    words = " ".join(text.split())
    if not words:
        raise ValueError("instruction is empty; the one before stays in force")
    if len(words) > LONGEST:
        raise ValueError(
            f"instruction of {len(words)} characters is longer than {LONGEST}; "
            "the one before stays in force"
        )
    return words
