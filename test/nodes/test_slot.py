# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The depth-1 slot between executor and engine."""

from __future__ import annotations

import threading

from phyai_ros.nodes.slot import Slot


def test_newest_wins_and_what_it_pushed_out_is_counted():
    slot: Slot[int] = Slot()
    for item in (1, 2, 3):
        slot.put(item)
    assert slot.waiting
    assert slot.take() == 3
    assert not slot.waiting
    assert slot.replaced == 2


def test_a_waiting_taker_gets_the_item_and_the_end():
    slot: Slot[int] = Slot()
    got: list[int | None] = []
    first = threading.Event()

    def work() -> None:
        got.append(slot.take())
        first.set()
        got.append(slot.take())

    thread = threading.Thread(target=work)
    thread.start()
    slot.put(7)
    assert first.wait(20)
    slot.close()
    thread.join(20)
    assert got == [7, None]


def test_closed_means_nothing_more_even_with_an_item():
    slot: Slot[int] = Slot()
    slot.put(1)
    slot.close()
    assert slot.take() is None
