# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What every fuzz test shares: how long it goes on, damage to bytes, and values of a wrong kind.

``make fuzz`` sets PHYAI_FUZZ_EXAMPLES; without it the tests are short enough for the suite.
"""

import copy
import json
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PHYAI_FUZZ_EXAMPLES", "40"))
fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 0, 10**6, 10**12, 10**400]),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["../../../../etc/passwd", "/dev/zero", "a\0b", "x" * 5000, "1e999"]),
    st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=3),
)
"""A JSON or YAML value that is not what was there."""


SIZES = (0, 1, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
LONGEST_MESSAGE = 20_000
"""Characters that a refusal may have."""


def outcome(kind: type[Exception], call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, or the text of its refusal. Any other exception fails the test."""
    try:
        return call(), ""
    except kind as error:
        text = str(error)
    assert text
    assert len(text) < LONGEST_MESSAGE
    return None, text


@st.composite
def damaged(draw, data: bytes, start: int = 0) -> bytes:
    """The bytes with a few changed, taken out, put in or cut off; those before ``start`` kept."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        if len(found) <= start:
            break
        at = draw(st.integers(start, len(found) - 1))
        how = draw(st.sampled_from(["one", "size", "cut", "in", "end"]))
        if how == "one":
            found[at] = draw(st.integers(0, 255))
        elif how == "size":
            number = draw(
                st.sampled_from([0, 1, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1])
            )
            found[at : at + 8] = number.to_bytes(8, draw(st.sampled_from(["little", "big"])))
        elif how == "cut":
            del found[at : at + draw(st.integers(1, 300))]
        elif how == "in":
            found[at:at] = draw(st.binary(min_size=1, max_size=40))
        else:
            del found[at:]
    return bytes(found)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """Paths of every value inside a JSON value."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value[:4]):
            found += places(inner, (*path, i))
    return found


@st.composite
def altered(draw, value: object) -> object:
    """A JSON value in which one to three places hold something else, or are gone."""
    found = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(found)))
        if not path:
            continue
        parent = found
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()):
            parent[path[-1]] = draw(WRONG)
        else:
            del parent[path[-1]]
    return found


def nested(depth: int) -> str:
    """JSON of so many objects inside one another."""
    return json.dumps({}).replace("{}", '{"a":' * depth + "1" + "}" * depth)
