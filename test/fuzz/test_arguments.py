# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``name:=value`` words from anybody: typed values, or an ArgumentError that names the argument."""

import math

import pytest
from fuzzing import fuzz, outcome
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.nodes import arguments, graph
from phyai_ros.nodes.arguments import ArgumentError
from phyai_ros.tools import up

ARGUMENTS = (*graph.ARGUMENTS, *up.ARGUMENTS)
NAMES = [argument.name for argument in ARGUMENTS]
word = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["true", "nan", "inf", "-1", "1e400", "9" * 5000, "a\0b", "../x.yaml", "ur10e"]
    ),
    st.integers().map(str),
    st.floats().map(str),
)


@fuzz
@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_words(words):
    outcome(ArgumentError, lambda: arguments.parse(ARGUMENTS, arguments.split(words)))


@fuzz
@given(st.dictionaries(st.sampled_from(NAMES), word, max_size=5))
def test_any_value_of_a_known_argument_has_its_type_or_is_refused_by_name(values):
    words = [f"{name}:={text}" for name, text in values.items()]
    parsed, refusal = outcome(
        ArgumentError, lambda: arguments.parse(ARGUMENTS, arguments.split(words))
    )
    if parsed is None:
        assert any(name in refusal for name in values)
        return
    for argument in ARGUMENTS:
        value = parsed[argument.name]
        assert type(value) is type(argument.default)
        if isinstance(value, float):
            assert math.isfinite(value)


@pytest.mark.parametrize("text", ["9" * 5000, "1e400", "nan", "0x10", "", "1 2"])
def test_numbers_that_are_none_are_refused(text):
    number = arguments.Argument("n", 1, "a number", low=0, high=100)
    with pytest.raises(ArgumentError, match="n:="):
        number.parse(text)
