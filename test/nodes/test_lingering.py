# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How long a trouble is told that is over."""

from __future__ import annotations

from phyai_ros.nodes.lingering import LINGERS, Lingering


def tell(trouble):
    text = trouble.lately
    trouble.told(text)
    return text


class Clock:
    time = 10.0

    def __call__(self):
        return self.time


def test_it_is_told_while_it_lasts_and_a_while_after():
    clock = Clock()
    trouble = Lingering(clock)
    assert (trouble.now, tell(trouble)) == (None, None)
    trouble.set("bad")
    clock.time += 100.0
    assert (trouble.now, tell(trouble)) == ("bad", "bad")
    trouble.set(None)
    assert (trouble.now, tell(trouble)) == (None, "bad")
    clock.time += 0.9 * LINGERS
    trouble.set(None)  # one good message after the other does not draw it out
    clock.time += 0.2 * LINGERS
    assert tell(trouble) is None


def test_it_is_told_once_however_late_somebody_looks():
    clock = Clock()
    trouble = Lingering(clock)
    for _ in range(2):  # and as well when the same comes back
        trouble.set("bad")
        trouble.set(None)
        clock.time += 100.0
        assert trouble.lately == "bad"
        assert tell(trouble) == "bad"
        assert tell(trouble) is None
        assert trouble.lately is None


def test_the_newest_is_told_and_none_of_another_before_it():
    clock = Clock()
    trouble = Lingering(clock)
    trouble.set("bad")
    assert tell(trouble) == "bad"
    trouble.set("worse")
    trouble.set(None)
    clock.time += 100.0
    assert tell(trouble) == "worse"
    assert tell(trouble) is None


def test_what_was_made_and_not_passed_on_is_not_told():
    clock = Clock()
    trouble = Lingering(clock)
    trouble.set("bad")
    trouble.set(None)
    clock.time += 100.0
    assert [trouble.lately for _ in range(3)] == ["bad"] * 3
    trouble.told("another")
    assert trouble.lately == "bad"
    trouble.told("bad")
    assert trouble.lately is None
