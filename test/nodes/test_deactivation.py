# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node's control thread beside the executor's, which deactivates it."""

from functools import partial
from threading import Event, Lock, Thread
from types import SimpleNamespace

import pytest
from std_msgs.msg import String

from phyai_ros.control.guard import Limits
from phyai_ros.control.states import State
from phyai_ros.nodes import handoff_node
from phyai_ros.nodes.handoff_node import LONGEST_STOP, HandoffNode


class Deactivated:
    """A node whose executor takes the pacer away as soon as the control thread has looked at it."""

    def __init__(self, jitter: float = 0.0) -> None:
        self.looks = iter([SimpleNamespace(jitter=jitter)])
        self.ticks = 0
        self._period, self.stood = 0.05, []
        self._handoff = SimpleNamespace(
            config=SimpleNamespace(clock_jump=1.0),
            stood_by=self.stood.append,
            let_go=lambda: self.stood.append("let go"),
        )
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


@pytest.mark.parametrize(
    ("late", "found"), [(0.0, []), (0.049, []), (0.05, [1]), (0.26, [5]), (1.1, ["let go"])]
)
def test_a_process_that_stood_still_tells_how_long_the_arm_got_nothing(late, found):
    node = Deactivated(late)
    HandoffNode._tick(node)
    assert (node.stood, node.ticks) == (found, 1)


def test_an_instruction_that_is_said_again_and_again_does_not_pile_up_while_nobody_ticks():
    posted = []
    node = SimpleNamespace(_loop=SimpleNamespace(post=posted.append), _instruction="")
    for word in ("red", "red", "red", "blue", "red"):
        HandoffNode._on_instruction(node, String(data=word))
    assert len(posted) == 3


def test_what_was_posted_before_an_activation_lets_nothing_move_before_others_are_listened_for(
    monkeypatch,
):
    """A look just before the deactivation had said that it had listened for long enough, and
    nobody had ticked since."""
    begun = SimpleNamespace(start=lambda: None, jitter=0.0, missed=0)
    monkeypatch.setattr(handoff_node, "Pacer", lambda *_, **__: begun)
    monkeypatch.setattr(handoff_node, "steady_timer", lambda *_: None)
    monkeypatch.setattr(handoff_node.diagnostics, "Publisher", lambda *_: None)
    posted = []
    node = SimpleNamespace(
        _handoff=SimpleNamespace(waits_for=""),
        _masters=SimpleNamespace(waits_for="listening", restart=lambda: None),
        _loop=SimpleNamespace(post=posted.append),
        _holds=SimpleNamespace(activated=lambda now: None),
        _seen=SimpleNamespace(restart=lambda: None),
        _sink=SimpleNamespace(missed=0),
        _values=SimpleNamespace(realtime_priority=0),
        _check_robot=lambda: None,
        **dict.fromkeys(("_statuses", "_watch", "_tick", "_on_loop_error", "_period")),
    )
    node._listened = partial(HandoffNode._listened, node)
    posted.append(partial(node._listened, ""))
    HandoffNode.activate(node)
    for action in posted:
        action(1.0)
    assert node._handoff.waits_for == "listening"


class Stopping:
    """A node that is deactivated while its arm brakes from full speed, on a virtual clock."""

    def __init__(self, velocity: float, acceleration: float, monkeypatch, factor=1.0) -> None:
        self._gate = SimpleNamespace(factor=factor)
        self.now, self.stopped, self.said = 0.0, None, []
        monkeypatch.setattr(handoff_node, "time", self)
        self._period = 0.05
        self._pacer, self._stopping = SimpleNamespace(running=True, stop=self._stop), Lock()
        self._loop = SimpleNamespace(post=lambda action: None)
        self._sink = SimpleNamespace(state=State.HOLDING)
        self.rest = (velocity / acceleration + self._period) / factor
        limits = Limits(("a",), [-9], [9], [velocity], [acceleration])
        self._handoff = SimpleNamespace(
            guard=self, config=SimpleNamespace(plays_on=False), pause=lambda: None
        )
        self.limits = limits
        self._watch_timer, self._diagnostics = None, SimpleNamespace(destroy=lambda: None)

    @property
    def standing(self) -> bool:
        return self.now >= self.rest

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def _stop(self) -> None:
        self.stopped = self.now

    def _bring_to_rest(self, pacer) -> None:
        HandoffNode._bring_to_rest(self, pacer)

    def destroy_timer(self, timer) -> None:
        pass

    def get_logger(self):
        return SimpleNamespace(error=self.said.append)


@pytest.mark.parametrize(
    ("velocity", "acceleration", "factor", "stands"),
    [(2.0, 8.0, 1.0, True), (2.0, 2.0, 1.0, True), (3.0, 0.5, 1.0, False), (2.0, 8.0, 0.3, True)],
)
def test_an_arm_that_brakes_slowly_is_waited_for_or_said_to_move(
    velocity, acceleration, factor, stands, monkeypatch
):
    """A process that is told to stop has little time; an arm whose commands end at speed jerks.
    One that is slowed down brakes in its own time."""
    node = Stopping(velocity, acceleration, monkeypatch, factor)
    HandoffNode.deactivate(node)
    assert (node.stopped >= node.rest) is stands
    assert node.stopped <= LONGEST_STOP + node._period
    assert bool(node.said) is not stands


def test_a_process_that_is_told_to_end_meanwhile_leaves_the_arm_its_time_to_brake():
    """Ctrl-C while the executor's thread deactivates the node: the publishers are not destroyed
    under the control thread that brakes."""
    braking, rest, done = Event(), Event(), []

    def bring_to_rest(pacer) -> None:
        braking.set()
        rest.wait(20)
        done.append("at rest")

    node = SimpleNamespace(
        _pacer=SimpleNamespace(),
        _stopping=Lock(),
        _bring_to_rest=bring_to_rest,
        _owned=[SimpleNamespace(destroy=lambda: done.append("destroyed"))],
    )
    node.deactivate = lambda: HandoffNode.deactivate(node)
    threads = [Thread(target=node.deactivate)]
    threads[0].start()
    assert braking.wait(20)
    threads.append(Thread(target=HandoffNode.teardown, args=(node,)))
    threads[1].start()
    threads[1].join(0.05)
    assert done == []
    rest.set()
    for thread in threads:
        thread.join(20)
    assert done == ["at rest", "destroyed"]
