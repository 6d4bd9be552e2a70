# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The rows of ``phyai-ros check``: what is compared with what, and how near it has to be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from phyai_ros.engine.policy import Policy
from phyai_ros.engine.reference import ReferenceRunner
from phyai_ros.engine.types import ActionChunk, Observation, PolicyError
from phyai_ros.tools import check_inputs
from phyai_ros.tools.check_inputs import Recorded
from phyai_ros.tools.check_statistics import altered

FLOAT32 = 1e-5
"""Relative tolerance of float32 against the reference path and against a fixture."""
BATCHED = 5e-5
"""The same, for several requests at once: their products sum in another order."""
FP8 = 0.1
"""Relative to the largest action: a weight has three bits of mantissa, what it multiplies three or,
in an expert's clusters, two, and the fixtures' models only a few dozen channels over which that
averages."""
OWN_ERROR = 1.25
"""bfloat16 may be off by this many times the reference's own bfloat16 error."""

_OWN_ERROR_OF = 4
"""Requests over which that error is taken."""

Infer = Callable[[Sequence[Observation], torch.Tensor], list[ActionChunk]]
Reload = Callable[[Path], Policy]
"""The same policy with the same options from another directory."""


@dataclass(frozen=True)
class Row:
    """One line of the result. error and limit: relative, None where nothing is measured. rule:
    how they are to compare ("<=" for agreement, ">" for a change, "==" for identity)."""

    check: str
    detail: str
    passed: bool
    error: float | None = None
    rule: str = ""
    limit: float | None = None
    note: str = ""


def agreement(check: str, detail: str, error: float, limit: float, note: str = "") -> Row:
    return Row(check, detail, error <= limit, error, "<=", limit, note)


def change(check: str, detail: str, error: float, limit: float) -> Row:
    return Row(check, detail, error > limit, error, ">", limit)


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest absolute difference over the expected array's largest magnitude; inf where a value
    is not finite or the shapes differ."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(found.astype(np.float64) - expected).max()) / scale


def paths(policy: Policy, batches: Sequence[int], like: Observation) -> Mapping[str, Infer]:
    """Every way that this device has to answer a request, but the reference path: plain torch with
    all that is constant kept, and on a GPU the captured graphs with the fused kernels. like: what
    will be asked."""
    if policy.device.type != "cuda" or policy.runner.selector == "reference":
        return {"cached": policy.infer_batch}
    plain = Policy(policy.adapter, policy.device, selector="reference")
    sizes = {k: (v.shape[0], v.shape[1]) for k, v in like.images.items()}
    policy.warm_up(sizes, batches=tuple(batches))
    fused = policy.runner.model is not policy.adapter.model
    return {
        "cached": plain.infer_batch,
        "graphed, fused" if fused else "graphed": policy.infer_batch,
    }


def fixed_inputs(
    policy: Policy, exact: Policy | None, batches: Sequence[int], seed: int = 0
) -> Iterator[Row]:
    """The reference path against every other at several batch sizes, and a repeat. exact: the same
    policy in float32, where ``policy`` is not; the tolerance then is its own error."""
    count = max(batches)
    observations = check_inputs.observations(policy.spec, count, seed)
    noise = check_inputs.noise(policy, count, seed)
    expected = ReferenceRunner(policy.adapter, policy.device).run(observations, noise)
    own = None
    if exact is not None:
        few = min(count, _OWN_ERROR_OF)
        ideal = ReferenceRunner(exact.adapter, exact.device).run(observations[:few], noise[:few])
        own = _worst(expected[:few], ideal)
    for name, infer in paths(policy, batches, observations[0]).items():
        for batch in batches:
            found = infer(observations[:batch], noise[:batch])
            error = _worst(found, expected[:batch])
            limit, note = FLOAT32 if batch == 1 else BATCHED, ""
            if own is not None:
                limit = OWN_ERROR * own
                note = f"{OWN_ERROR:g} x the reference path's own {own:.2g}"
            yield agreement("path", f"{name}, batch {batch}", error, limit, note)
        first = infer(observations[:1], noise[:1])[0]
        again = infer(observations[:1], noise[:1])[0]
        same = np.array_equal(first.actions, again.actions)
        error = relative(again.actions, first.actions)
        yield Row("repeat", f"{name}, nothing changed", same, error, "==", 0.0)


def _worst(found: Sequence[ActionChunk], expected: Sequence[ActionChunk]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(relative(f.normalised, e.normalised) for f, e in pairs)


def conditions(policy: Policy, seed: int = 0) -> Iterator[Row]:
    """Images, state, instruction and history, one changed at a time: each must change the actions,
    but those that the policy says it ignores, which must not."""
    spec = policy.spec
    base, other = check_inputs.observations(spec, 2, seed)
    noise = check_inputs.noise(policy, 1, seed)
    before = policy.infer_batch([base], noise)[0].normalised
    changed = {f"image of {k}": check_inputs.changed_image(base, [k]) for k in spec.cameras}
    if spec.state:
        changed["state"] = replace(base, state=other.state)
    changed["instruction"] = replace(base, instruction=other.instruction)
    if spec.history:
        changed["history"] = replace(base, history=())
    for what, observation in changed.items():
        after = policy.infer_batch([observation], noise)[0].normalised
        error = relative(after, before)
        if what in spec.ignores:
            yield Row("condition", what, error == 0, error, "==", 0.0, "which the policy ignores")
        else:
            yield change("condition", what, error, FLOAT32)


def statistics(policy: Policy, reload: Reload, seed: int = 0) -> Iterator[Row]:
    """Other normalisation statistics must give other actions."""
    (base,) = check_inputs.observations(policy.spec, 1, seed)
    noise = check_inputs.noise(policy, 1, seed)
    before = policy.infer_batch([base], noise)[0].actions
    for side, features in (("state", policy.spec.state), ("action", policy.spec.action)):
        if not any(f.normalisation.lower() != "identity" for f in features):
            continue
        if side in policy.spec.ignores:
            continue
        with tempfile.TemporaryDirectory(prefix="phyai_check_") as folder:
            changed = altered(Path(policy.spec.checkpoint), side, Path(folder))
            if not changed:
                yield Row("statistics", side, False, note="no statistics file was recognised")
                continue
            after = reload(Path(folder)).infer_batch([base], noise)[0].actions
        names = ", ".join(sorted({f.name for f in changed}))
        yield replace(
            change("statistics", side, relative(after, before), FLOAT32), note=f"in {names}"
        )


def fixture(
    cases: Sequence[Recorded], policy_of: Callable[[str | None], Policy], precision: str
) -> Iterator[Row]:
    """Recorded requests. policy_of: embodiment -> policy."""
    for case in cases:
        policy = policy_of(case.embodiment)
        try:
            chunk = policy.infer(case.observation, case.noise)
        except PolicyError as refusal:
            yield Row("fixture", case.name, False, note=str(refusal))
            continue
        rows = len(case.expected)
        if precision == "float32":
            error = relative(chunk.actions[:rows], case.expected)
            yield agreement("fixture", case.name, error, FLOAT32)
        elif precision == "fp8":
            error = relative(chunk.actions[:rows], case.expected)
            yield agreement("fixture", case.name, error, FP8)
        elif case.normalised is not None and case.own_error is not None:
            width = case.normalised.shape[1]
            off = np.abs(chunk.normalised[:rows, :width] - case.normalised).max()
            note = "absolute, in normalised actions"
            yield agreement("fixture", case.name, float(off), OWN_ERROR * case.own_error, note)
        else:
            yield Row(
                "fixture", case.name, True, note=f"says nothing about {precision}; not judged"
            )
