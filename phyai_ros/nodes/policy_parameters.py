# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What can be set of policy_node."""

from __future__ import annotations

from phyai_ros.control import methods
from phyai_ros.engine.policy import DTYPES
from phyai_ros.engine.runner import SELECTORS
from phyai_ros.nodes import params
from phyai_ros.nodes.params import Parameter

PARAMETERS = (
    params.AUTOSTART,
    Parameter("model", "gr00t", "policy: a name in config/models or a YAML file"),
    Parameter("robot", "ur10e", "robot description: a name in config/robots or a YAML file"),
    Parameter("checkpoint", "", "directory, hub id or id@revision; empty: the model's own"),
    Parameter("embodiment", "", "the checkpoint's embodiment tag; empty: the model's own"),
    Parameter("device", "cpu", "where the policy runs: cpu, cuda, cuda:N, or auto"),
    Parameter("precision", "float32", "its floating point type", choices=tuple(DTYPES)),
    Parameter(
        "selector",
        "auto",
        "auto: what was measured to be the fastest; reference: plain torch, nothing captured",
        choices=SELECTORS,
    ),
    Parameter("seed", 0, "of the policy's noise, together with a request's id", low=0, high=2**31),
    Parameter(
        "handoff",
        "replace",
        "the handoff method of handoff_node; guided ones need a policy that can be guided so",
        choices=methods.NAMES,
    ),
    Parameter(
        "threads",
        0,
        "CPU threads of the policy; 0: torch decides",
        low=0,
        high=256,
    ),
    Parameter("instruction", "", "the task in words, for requests that bring none"),
    Parameter(
        "observation_timeout",
        1.0,
        "s, a request waits this long for an observation that may answer it",
        low=0.01,
        high=60.0,
    ),
    Parameter(
        "synchronizer",
        "aligner",
        "what pairs the camera messages",
        choices=("aligner", "message_filters"),
    ),
)
