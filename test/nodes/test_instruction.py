# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from phyai_ros.nodes.instruction import LONGEST, clean_instruction


def test_white_space_does_not_make_another_task():
    assert clean_instruction("  reach the\n red   block ") == "reach the red block"
    assert clean_instruction("word " * (LONGEST // 5))


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is empty"), (" \n\t", "is empty"), ("x" * (LONGEST + 1), "2001 characters is longer")],
)
def test_nothing_and_too_much_are_refused_whole(text, says):
    with pytest.raises(ValueError, match=says):
        clean_instruction(text)
