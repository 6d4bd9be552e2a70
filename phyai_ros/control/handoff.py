# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which action belongs to this tick, and when to ask for the next chunk.

Time is the absolute tick axis. A chunk's row belongs to the tick of its observation plus its index;
a new chunk takes over at its true index, requests overlap with execution, and every way in which a
chunk can fail to come ends in a named state of a standing arm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from phyai_ros.control.buffer import ChunkBuffer
from phyai_ros.control.chunk import Chunk, Drop
from phyai_ros.control.clock import Advance, TickAxis
from phyai_ros.control.config import HandoffConfig
from phyai_ros.control.guard import Limits
from phyai_ros.control.horizon import ExecutionHorizon
from phyai_ros.control.intake import Intake
from phyai_ros.control.methods import Method, Replace
from phyai_ros.control.motion import Motion
from phyai_ros.control.progress import Progress
from phyai_ros.control.requests import Requests
from phyai_ros.control.stall import StallDetector
from phyai_ros.control.standstill import Standstill
from phyai_ros.control.states import Command, Counters, Request, State
from phyai_ros.control.told import jumped
from phyai_ros.control.tracking import TrackingWatch
from phyai_ros.control.workspace import Workspace

__all__ = ["ChunkBuffer", "Handoff", "HandoffConfig"]


class Handoff:
    """Call ``tick`` once a control period, then ``request``; ``accept`` chunks as they come.

    workspace: where the tool may be. stall: watches the grippers; ``stalled`` names one that stands
    closed without a command for too long, a remark for people that stops nothing. tracking: holds
    an arm that does not go where it is sent.
    One thread at a time. Joint order everywhere: ``limits.names``. All times are seconds of the one
    clock that also stamps the observations.
    """

    def __init__(
        self,
        limits: Limits,
        config: HandoffConfig,
        method: Method | None = None,
        *,
        workspace: Workspace | None = None,
        stall: StallDetector | None = None,
        tracking: TrackingWatch | None = None,
    ) -> None:
        self.names = limits.names
        self.config = config
        self.counters = Counters()
        self.stall = stall
        self.tracking = tracking
        self.stalled = ""
        self.axis = TickAxis(config.period, jump=config.clock_jump)
        self.buffer = ChunkBuffer(limits.names, method or Replace(), config.discrete)
        self.requests = Requests(config)
        self.epoch = config.first_epoch
        self.instruction = ""
        self.progress = Progress()
        self.intake = Intake(
            limits, config, self.axis, self.buffer, self.requests, self.progress, self.counters
        )
        self._horizon = ExecutionHorizon(config, self.intake, self.requests.delay)
        self._motion = Motion(
            limits,
            config,
            self.buffer.held,
            self.counters,
            workspace=workspace,
            tracking=tracking,
        )
        self.guard = self._motion.guard
        self._state = State.WAITING
        self._standstill = Standstill(config.fault_after)
        self.waits_for = ""
        """Why no motion may begin yet, for people; one that is under way goes on."""
        self._epoch_start: float | None = None
        self._command = Command(-1, State.WAITING, "not started", epoch=self.epoch)

    @property
    def state(self) -> State:
        return self._state

    @property
    def measured_delay(self) -> int:
        """Ticks from observation to first use of the newest chunk."""
        return self.intake.measured_delay

    @property
    def last_drop(self) -> str:
        """Why the newest dropped chunk was dropped."""
        return self.intake.last_drop

    @property
    def bad_measurement(self) -> str:
        """What is wrong with the newest joint positions; empty when nothing is or none came."""
        return self._motion.unusable

    @property
    def epoch_start(self) -> float:
        """Seconds; older observations belong to an older epoch."""
        return self._epoch_start or 0.0

    @property
    def tick_number(self) -> int:
        """The newest tick, -1 before the first."""
        return self.axis.tick

    @property
    def starved(self) -> bool:
        """Whether the plan ran out, or was refused, and none has come since."""
        return self._standstill.starvation.since is not None

    @property
    def off_course(self) -> str:
        """Why the arm is held because it did not go where it was sent; empty when it is not."""
        return self._standstill.off_course

    @property
    def for_people(self) -> str:
        """Why only a person may let the arm move again, no automatic reset; else empty."""
        return self._standstill.for_people()

    @property
    def execution_ticks(self) -> int:
        """Ticks executed of a chunk before the next takes over: as set, or chosen (auto)."""
        return self._horizon.ticks

    def problem(self) -> str:
        """Why the measured delay cannot be hidden behind execution; empty when it can."""
        return self._horizon.problem()

    # -- what people and other nodes ask for -------------------------------------------------

    def hold(self, reason: str = "hold", *, release: bool = False) -> None:
        """Decelerate and stand until ``resume``. Chunks that come meanwhile are dropped. release:
        let go of the arm once it stands."""
        self._standstill.hold(release=release)
        self._abandon(reason, Drop.HELD)

    def resume(self, now: float) -> None:
        """Leave a hold: a new epoch, so only what is seen from now on moves the arm."""
        if self._standstill.held:
            self._standstill.leave_hold()
            self._begin_epoch(now, "resumed: waiting for a fresh chunk")

    def reset(self, now: float) -> None:
        """New epoch; leaves a hold and a fault. The last command is forgotten: once at rest nothing
        is commanded before a fresh chunk, whose first command ramps from the measured state."""
        self.renew(now)
        self._standstill.releasing = True

    def renew(self, now: float) -> None:
        """As ``reset``, of an arm that nobody else moves: it is held at its last command."""
        self._standstill.leave_hold()
        self._standstill.fault, self.intake.broken = "", 0
        self._begin_epoch(now, "reset: waiting for a fresh chunk")

    def fail(self, reason: str, *, of_policy: bool = False) -> None:
        """Fault: decelerate, stand and take no chunk until ``reset``. of_policy: its chunks are the
        cause alone."""
        self._abandon(reason, Drop.FAULT)
        self._standstill.fault, self._standstill.of_policy = reason, of_policy

    def let_go(self) -> None:
        """Stop commanding at once, so that others may move the arm: the next command starts from
        where it is then; a gripper that nobody moved goes on from its own."""
        self._motion.let_go()

    def stood_by(self, ticks: int) -> None:
        """Nothing was sent for ``ticks`` periods, not on purpose: a robot that holds the last
        command meanwhile has lost speed, and is not kicked back to what it had. No clock that
        jumps says so: the caller's steady one."""
        if not self.config.plays_on:
            self.guard.slow(ticks)

    def clock_jumped(self, now: float, seconds: float) -> None:
        """Before a tick, by who has a better clock to tell: no tick is missed by it."""
        self.axis.rest()
        self._clock_jumped(now, jumped(seconds, by_steady=True))

    def pause(self) -> None:
        """No ticks for a while, on purpose: lets go of the arm, and the time until the next tick is
        neither missed nor a jump of the clock. Hold before, resume after."""
        self.let_go()
        self.axis.rest()

    def set_instruction(self, text: str, now: float) -> None:
        """A different task begins a new epoch; the same one again changes nothing."""
        if text != self.instruction:
            self.instruction = text
            self._begin_epoch(now, "new instruction: waiting for its first chunk")

    # -- chunks ------------------------------------------------------------------------------

    def accept(self, chunk: Chunk) -> None:
        """Take a chunk for the next tick. Raises ChunkRefused (already counted) when it is not
        one that may move the arm; a chunk found expired only at that tick is counted there."""
        intake = self.intake
        try:
            intake.accept(chunk, self.epoch, self._standstill.barred())
        finally:
            if intake.broken >= self.config.fault_after_broken and not self._standstill.fault:
                reason = f"{intake.broken} unusable chunks in a row, last: {intake.last_drop}"
                self.fail(reason, of_policy=True)

    # -- the tick ----------------------------------------------------------------------------

    def tick(self, now: float, measured: np.ndarray | None, wall: float | None = None) -> Command:
        """One control period. measured: float [joints], newest joint positions, None when they
        are missing or too old; needed only to start moving. wall: now by the clock that answers
        take, where that is another."""
        step = self.axis.advance(now)
        if step.repeated:
            return replace(self._command, repeated=True, first_use=False)
        self.counters.ticks += 1
        self.counters.missed_ticks += step.missed
        if self._epoch_start is None:
            self._epoch_start = now
        if step.jumped:
            self._clock_jumped(now, jumped(step.jumped, by_steady=False))
        self.progress.advance(step.tick)
        if step.missed and self.config.plays_on:
            self._motion.played_on(step.tick - step.missed, step.tick)
        if trouble := self._motion.off_its_commands(measured, self._moving):
            self._standstill.off_course = trouble
            self.hold(trouble)
        fresh = self.intake.adopt(step.tick, now, self.execution_ticks)
        self._command = self._decide(step, now, now if wall is None else wall, measured, fresh)
        self._state = self._command.state
        executing = self._moving
        self._motion.sent(self.buffer.plan if executing else None)
        self.progress.mark(self._command.positions if executing else None)
        if self.stall is not None:
            self.stalled = self.stall.update(executing, self._command.positions)
        return self._command

    @property
    def _moving(self) -> bool:
        """Whether rows of a plan moved the arm at the newest tick."""
        return self._state in (State.EXECUTING, State.RAMPING)

    def ahead(self) -> np.ndarray:
        """Commands of the ticks to come, were no other chunk to come: [n, joints], ending in a
        standing arm; none where nothing is commanded."""
        return self._motion.ahead(self.buffer.plan if self._moving else None, self.axis.tick)

    def _decide(
        self, step: Advance, now: float, wall: float, measured: np.ndarray | None, fresh: bool
    ) -> Command:
        tick = step.tick
        unusable = self._motion.see(measured)
        unusable = f": {unusable}" if unusable else ""
        row = self.buffer.row(tick)
        if row is None or self._standstill.barred():
            return self._stand(step, wall)
        moving = self._moving or self._state is State.STARVED
        if self.guard.last is None or not moving:
            if measured is None or unusable:
                return self._stand(step, wall, f"no usable joint state to start from{unusable}")
            if self.waits_for:
                return self._stand(step, wall, self.waits_for)
            self._motion.start(measured, row, tick)
        self._standstill.moved()
        positions, limited, ramping = self._motion.step(row, tick)
        plan = self.buffer.plan
        assert plan is not None
        return Command(
            tick,
            State.RAMPING if ramping else State.EXECUTING,
            "moving from the measured state to the chunk" if ramping else "executing",
            positions,
            request_id=plan.chunk.request_id,
            epoch=self.epoch,
            index=(tick - plan.first) // plan.stride,
            remaining=plan.end - tick - 1,
            action_age=now - plan.chunk.stamp,
            limited=limited,
            first_use=fresh,
            jitter=step.jitter,
            missed=step.missed,
        )

    def _stand(self, step: Advance, wall: float, reason: str = "") -> Command:
        tick, why = step.tick, self._standstill
        if self.guard.last is not None and self._moving and self.buffer.plan is not None:
            self._run_out(tick, wall)
        if self.starved:
            self.counters.starved_ticks += 1 + step.missed
        positions, moved = self._motion.brake(why.releasing, wall)
        why.reason += moved
        if not why.fault and (overdue := why.starvation.fault(wall)):
            self.fail(overdue, of_policy=True)
        state = why.state(tick, commanding=positions is not None, resting=self.guard.standing)
        if why.fault and self.guard.standing:
            # Nothing is published in a fault, so the arm may be moved by hand: after the reset the
            # first command starts from where it is then.
            positions = None
            self.let_go()
        return Command(
            tick,
            state,
            why.fault or reason or why.reason,
            positions,
            epoch=self.epoch,
            jitter=step.jitter,
            missed=step.missed,
        )

    def _run_out(self, tick: int, wall: float) -> None:
        """The plan ended with nothing behind it."""
        if self.buffer.method.overlapped:
            self._standstill.starvation.begin(tick, wall)
            self._standstill.reason = "the chunk ran out before the next one came"
        else:
            self._standstill.reason = f"{self.buffer.method.name}: thinking"

    def _abandon(self, reason: str, drop: Drop = Drop.OLD_EPOCH) -> None:
        """Let go of the plan: the arm decelerates and stands. drop: what a chunk that waits is."""
        self.buffer.clear()
        self.intake.clear(drop, reason)
        self._standstill.starvation.end()
        self._standstill.reason = reason
        self.requests.forget()

    def _clock_jumped(self, now: float, reason: str) -> None:
        """What was seen before is of another time."""
        self.counters.clock_jumps += 1
        self._begin_epoch(now, reason)

    def _begin_epoch(self, now: float, reason: str) -> None:
        self.epoch += 1
        self._epoch_start = now
        if self._standstill.held:
            reason = self._standstill.reason
        if self.stall is not None:
            self.stall.clear()
        self._abandon(reason)

    # -- requests ----------------------------------------------------------------------------

    def request(self, now: float, pace: float = 1.0) -> Request | None:
        """The next request, when it is due: call after every ``tick``. now, pace: where answers
        take the time of another clock, its seconds, and those of ``tick`` in one of it."""
        if not self.axis.started or self._standstill.barred() or self.intake.waiting:
            return None
        return self.requests.due(self, now, pace)
