# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A request's left-over actions -> what the engine's guidance takes. No rclpy."""

from __future__ import annotations

import numpy as np

from phyai_ros.control import leftover, methods
from phyai_ros.control.frame import Frame
from phyai_ros.control.states import Request
from phyai_ros.engine.types import Guidance, PolicySpec
from phyai_ros.robots.binding import Binding


def guidance_method(handoff: str, spec: PolicySpec) -> str | None:
    """What the solver has to do for a handoff method, None for nothing. Raises ValueError that
    lists what this policy can do when it cannot do that."""
    methods.check_guidance(handoff, spec.guidance_methods, f"{spec.family} {spec.checkpoint}")
    return methods.make(handoff).guidance


def guidance(request: Request, frame: Frame, binding: Binding, method: str) -> Guidance | None:
    """None where there is nothing to agree with: the arm stands, or the observation is older than
    what the request tells.

    Row 0 is the action of the observation's tick, relative columns are anchored at the
    observation's joints, rows that the old chunk does not have are left out, and so are columns
    that move nothing or a gripper. The mask of the soft overlap ends with the left-over, which in
    steady execution is the paper's horizon - s: its s counts from one observation to the next.
    """
    rows = _ordered(request, binding)
    spec, horizon = binding.spec, binding.horizon
    cut = leftover.seen_from(
        frame.stamp, binding.step, rows, request.first_time, request.step, request.committed
    )
    actions = cut.rows[:horizon]
    if not len(actions):
        return None
    committed = min(cut.committed, len(actions))
    if method == "rtc_trained":
        # What comes later than it was made for is discarded by the handoff.
        committed = min(committed, spec.trained_delay)
    return Guidance(
        leftover=binding.actions(actions, frame.joints),
        committed=committed,
        method=method,
        execution_horizon=max(1, horizon - len(actions)),
        columns=binding.action_columns(exclude=binding.robot.discrete_joints),
    )


def decided(wish: Guidance | None) -> int:
    """Leading rows of the chunk that equal committed actions: only where the solver takes them as
    given does it promise that."""
    return wish.committed if wish is not None and wish.method == "rtc_trained" else 0


def _ordered(request: Request, binding: Binding) -> np.ndarray:
    """Left-over rows with the binding's columns: float64 [n, joints]."""
    rows = np.asarray(request.leftover, dtype=np.float64)
    if not len(rows):
        return np.zeros((0, len(binding.joint_names)))
    names = list(request.joint_names)
    if sorted(names) != sorted(binding.joint_names):
        raise ValueError(
            f"left-over actions: expected the joints {list(binding.joint_names)}, found {names}; "
            f"do policy and handoff use the same robot description?"
        )
    return rows[:, [names.index(name) for name in binding.joint_names]]
