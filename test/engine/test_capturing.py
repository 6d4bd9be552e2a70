# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How a capture begins and ends, by a graph that only says what it is asked."""

import pytest

from phyai_ros.engine.capturing import capturing


class Graph:
    """end: what its end raises, as after work that a capture cannot take."""

    def __init__(self, end=None):
        self.asked, self._end = [], end

    def capture_begin(self, **options):
        self.asked.append(options)

    def capture_end(self):
        self.asked.append("end")
        if self._end is not None:
            raise self._end


def test_other_threads_are_no_concern_of_a_capture():
    graph = Graph()
    with capturing(graph, (0, 1)):
        assert graph.asked == [{"pool": (0, 1), "capture_error_mode": "thread_local"}]
    assert graph.asked[1:] == ["end"]


@pytest.mark.parametrize("end", [None, RuntimeError("due to a previous error during capture")])
@pytest.mark.parametrize("first", [ValueError, RuntimeError, KeyboardInterrupt])
def test_the_first_error_goes_through_and_the_capture_is_ended(end, first):
    graph = Graph(end)
    with pytest.raises(first, match="of the work"), capturing(graph):
        raise first("of the work")
    assert graph.asked[1:] == ["end"]


def test_work_that_raised_nothing_but_cannot_be_captured():
    with (
        pytest.raises(RuntimeError, match="cannot end"),
        capturing(Graph(RuntimeError("cannot end"))),
    ):
        pass
