# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether policy_node and handoff_node were told the same: each has a parameter ``handoff``.

The policy says on a latched topic which method it makes its chunks for. What has to agree is what
its solver does; among methods that ask nothing of the policy any pair will do.
"""

from __future__ import annotations

from typing import Any

from std_msgs.msg import String

from phyai_ros.control import methods
from phyai_ros.nodes import qos
from phyai_ros.nodes.diagnostics import OK, WARN, EdgeLog, Status
from phyai_ros.nodes.streams import Stream

TOPIC = "phyai/policy_handoff"


def disagreement(handoff: str, policy: str) -> str | None:
    """What is wrong when handoff_node has method ``handoff`` and policy_node ``policy``, for
    people; None when they go together. handoff: one of control.methods.NAMES; policy: any text."""
    same = "; give both nodes the same parameter 'handoff'"
    said = f"handoff is {handoff!r} here and {policy[:40]!r} in the policy"
    if policy not in methods.NAMES:
        return f"{said}, which is none of {', '.join(methods.NAMES)}{same}"
    wanted, made = methods.make(handoff), methods.make(policy)
    if wanted.guidance == made.guidance:
        return None
    if wanted.guidance is None:
        return f"{said}: its chunks hold on to the old plan all the same{same}"
    if made.guidance is None:
        return f"{said}: its chunks are not guided, so they join as by 'replace'{same}"
    return f"{said}: its chunks are guided in that way{same}"


class Agreement:
    """Listens to what the policy says. ``look`` logs when it begins or ends to disagree."""

    def __init__(self, node: Any, handoff: str, log: EdgeLog) -> None:
        self._handoff, self._log = handoff, log
        self._policy: str | None = None
        self._stream = Stream(
            node,
            "policy's handoff",
            String,
            TOPIC,
            qos.policy_handoff(),
            self._on_policy,
            log,
            required=False,
        )

    def _on_policy(self, message: String) -> None:
        self._policy = message.data

    def trouble(self) -> str | None:
        if self._policy is None:
            return None
        return disagreement(self._handoff, self._policy)

    def look(self) -> None:
        self._log.set("handoff method", self.trouble())

    def status(self) -> Status:
        trouble = self.trouble()
        here = {"handoff": self._handoff, "policy": self._policy or "has not said"}
        return Status("handoff method", WARN if trouble else OK, trouble or "ok", here)

    def destroy(self) -> None:
        self._stream.destroy()
