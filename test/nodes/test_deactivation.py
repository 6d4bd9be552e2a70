# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node's control thread beside the executor's, which deactivates it."""

from types import SimpleNamespace

from std_msgs.msg import String

from phyai_ros.nodes.handoff_node import HandoffNode


class Deactivated:
    """A node whose executor takes the pacer away as soon as the control thread has looked at it."""

    def __init__(self) -> None:
        self.looks = iter([SimpleNamespace(jitter=0.0)])
        self.ticks = 0
        self._handoff = SimpleNamespace(config=SimpleNamespace(clock_jump=1.0))
        self._fail_safe = SimpleNamespace(tick=self._count)

    @property
    def _pacer(self):
        return next(self.looks, None)

    def _count(self) -> None:
        self.ticks += 1


def test_a_tick_that_is_under_way_while_the_node_is_deactivated_still_brakes_the_arm():
    """One that raised would have ended the control thread, and the arm at full speed."""
    node = Deactivated()
    HandoffNode._tick(node)
    HandoffNode._tick(node)
    assert node.ticks == 2


def test_an_instruction_that_is_said_again_and_again_does_not_pile_up_while_nobody_ticks():
    posted = []
    node = SimpleNamespace(_loop=SimpleNamespace(post=posted.append), _instruction="")
    for word in ("red", "red", "red", "blue", "red"):
        HandoffNode._on_instruction(node, String(data=word))
    assert len(posted) == 3
