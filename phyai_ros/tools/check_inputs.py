# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Fixed inputs of ``phyai-ros check``: made up from the policy's description, or recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from phyai_ros.engine.policy import Policy
from phyai_ros.engine.types import FeatureSpec, Observation, PolicyError, PolicySpec

INSTRUCTIONS = ("pick up the red block", "put the green cup on the plate", "open the drawer")
_FREE_SIZE = (240, 320)


def observations(spec: PolicySpec, count: int, seed: int = 0) -> list[Observation]:
    """Made-up observations, the same ones every time: smooth random images, states within what the
    training data shows, instructions of different length."""
    rng = np.random.default_rng(seed)
    return [_observation(spec, rng, i) for i in range(count)]


def _observation(spec: PolicySpec, rng: np.random.Generator, i: int) -> Observation:
    moment = Observation(
        {k: image(rng, spec.fitting_size(k, _FREE_SIZE)) for k in spec.cameras},
        _state(spec, rng),
        INSTRUCTIONS[i % len(INSTRUCTIONS)],
    )
    earlier = tuple(
        replace(
            moment,
            images={k: np.roll(v, j + 1, axis=1) for k, v in moment.images.items()},
            state=_state(spec, rng),
        )
        for j in reversed(range(spec.history))
    )
    return replace(moment, history=earlier)


def _state(spec: PolicySpec, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([_values(f, rng) for f in spec.state] or [np.zeros(0)])


def image(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """uint8 [height, width, 3]: a smooth random colour field."""
    coarse = torch.from_numpy(rng.uniform(0, 255, (1, 3, 6, 8)).astype(np.float32))
    fine = torch.nn.functional.interpolate(coarse, size, mode="bicubic").clamp(0, 255)
    return np.asarray(fine[0].permute(1, 2, 0).to(torch.uint8).contiguous().numpy())


def _values(feature: FeatureSpec, rng: np.random.Generator) -> np.ndarray:
    """Values within the statistics that the feature is normalised with: by those, a column that
    never varied in training has one value, and another would drown every other input."""
    share = 0.2 + 0.6 * rng.random(feature.size)
    own = {"MIN_MAX": ("min", "max"), "QUANTILES": ("q01", "q99"), "QUANTILE10": ("q10", "q90")}
    ends = own.get(feature.normalisation.upper())
    if ends is None and feature.normalisation.upper() != "MEAN_STD":
        candidates = own.values()
        ends = next((e for e in candidates if set(e) <= set(feature.statistics)), None)
    if ends is not None:
        low, high = (np.atleast_2d(feature.statistics[k])[0] for k in ends)
        return low + share * (high - low)
    mean = np.asarray(feature.statistics.get("mean", np.zeros(feature.size)), np.float64)
    std = np.asarray(feature.statistics.get("std", np.ones(feature.size)), np.float64)
    return mean + std * (2 * share - 1)


def noise(policy: Policy, count: int, seed: int = 0) -> torch.Tensor:
    """Fixed noise of ``count`` requests, on the policy's device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(policy.adapter.noise_shape(count), generator=generator).to(policy.device)


@dataclass(frozen=True)
class Recorded:
    """One request with the actions that the official implementation answered.

    expected: [rows, action_dim], robot units; normalised: [rows, width], where it is recorded.
    noise: without the batch axis, or None where the policy draws none. embodiment: the tag it was
    made with, None for the checkpoint's only one. own_error: the official implementation's own
    bfloat16 error in normalised actions, where it is recorded.
    """

    name: str
    observation: Observation
    noise: torch.Tensor | None
    expected: np.ndarray
    embodiment: str | None
    normalised: np.ndarray | None = None
    own_error: float | None = None


def embodiments(directory: Path) -> list[str]:
    """The embodiment tags that a fixture's cases name, in order."""
    listed, _ = _read(directory)
    tags = [c["embodiment_tag"] for c in listed if "embodiment_tag" in c]
    return list(dict.fromkeys(str(tag) for tag in tags))


def recorded(directory: Path, spec_of: Callable[[str | None], PolicySpec]) -> list[Recorded]:
    """The end-to-end cases of a fixture: cases.json and cases.safetensors, where a case has
    ``e2e.raw.<camera>``, ``e2e.state``, ``e2e.noise`` and ``e2e.action_chunk`` (or ``e2e.action``),
    or the same under ``rollout.`` with one entry a control step (and one ``step_noise`` a planning,
    where the sampler draws at every step). ``environment_state`` follows the state. spec_of:
    embodiment tag (None where the case names none) -> the policy's spec. Raises PolicyError by
    file."""
    listed, arrays = _read(directory)
    found: list[Recorded] = []
    for case in listed:
        name = case["name"]
        data = {
            k.removeprefix(name + "."): v for k, v in arrays.items() if k.startswith(name + ".")
        }
        try:
            if "e2e.state" in data:
                found.append(_single(case, data, spec_of(case.get("embodiment_tag"))))
            elif "rollout.state" in data:
                found += _rollout(case, data, spec_of(None))
        except KeyError as error:
            raise PolicyError(
                f"{directory}/cases.safetensors: case {name!r}: no tensor {error}; there are: "
                f"{', '.join(sorted(data))}"
            ) from None
    if not found:
        raise PolicyError(
            f"{directory}: no end-to-end case; expected tensors e2e.raw.<camera>, e2e.state, "
            f"e2e.action_chunk; cases: {[c['name'] for c in listed]}"
        )
    own = [_own_error(c["bf16_vs_fp32_max_abs"]) for c in listed if "bf16_vs_fp32_max_abs" in c]
    return [replace(f, own_error=max(own)) for f in found] if own else found


def _own_error(value: float | dict[str, float]) -> float:
    """A number, or one a way of running in bfloat16, of which plain ``bf16`` is meant."""
    return float(value["bf16"] if isinstance(value, dict) else value)


def _read(directory: Path) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    try:
        listed = json.loads((directory / "cases.json").read_text())["cases"]
        arrays = load_file(directory / "cases.safetensors")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise PolicyError(
            f"{directory}: no fixture with cases.json and cases.safetensors: {error}"
        ) from None
    for case in listed:
        if not isinstance(case, dict) or not isinstance(case.get("name"), str):
            raise PolicyError(
                f"{directory}/cases.json: cases: expected objects with a name, found "
                f"{str(case)[:100]}"
            )
    return listed, arrays


_NORMALISED = ("e2e.action_chunk_normalised", "e2e.action_normalised", "e2e.actions_normalised")


def _single(case: dict[str, Any], data: dict[str, torch.Tensor], spec: PolicySpec) -> Recorded:
    state = torch.cat([data[k] for k in ("e2e.state", "e2e.environment_state") if k in data])
    key = "e2e.action_chunk" if "e2e.action_chunk" in data else "e2e.action"
    expected = data[key].double()
    normalised = next((data[k][0].numpy() for k in _NORMALISED if k in data), None)
    return Recorded(
        str(case["name"]),
        Observation(_images(data, "e2e.raw.", spec), state.numpy(), _instruction(case)),
        data["e2e.noise"][0] if "e2e.noise" in data else None,
        (expected[0] if expected.ndim == 3 else expected).numpy(),
        case.get("embodiment_tag"),
        normalised,
    )


def _rollout(
    case: dict[str, Any], data: dict[str, torch.Tensor], spec: PolicySpec
) -> Iterator[Recorded]:
    frames = _images(data, "rollout.raw.", spec)
    expected = data["rollout.actions"].double().numpy()
    parts = ("rollout.state", "rollout.environment_state")
    states = torch.cat([data[k] for k in parts if k in data], dim=-1).numpy()
    moments = [
        Observation({k: v[t] for k, v in frames.items()}, state, _instruction(case))
        for t, state in enumerate(states)
    ]
    draws = data["rollout.noise"]
    if "rollout.step_noise" in data:
        draws = torch.cat([draws[:, None], data["rollout.step_noise"]], dim=1)
    for plan, draw in enumerate(draws):
        t = plan * spec.horizon
        earlier = tuple(moments[max(0, t - spec.history) : t])
        yield Recorded(
            f"{case['name']} step {t}",
            replace(moments[t], history=earlier),
            draw,
            expected[t : t + spec.horizon],
            None,
        )


def _images(data: dict[str, torch.Tensor], prefix: str, spec: PolicySpec) -> dict[str, np.ndarray]:
    given = {k.removeprefix(prefix): v.numpy() for k, v in data.items() if k.startswith(prefix)}
    keys = {key.rsplit(".", 1)[-1]: key for key in spec.cameras}
    unknown = [name for name in given if name not in keys]
    if unknown:
        raise PolicyError(f"fixture: camera {unknown[0]!r} is not one of {list(spec.cameras)}")
    return {keys[name]: image for name, image in given.items()}


def _instruction(case: dict[str, Any]) -> str:
    return str(case.get("task", case.get("prompt", "")))


def changed_image(observation: Observation, keys: Sequence[str]) -> Observation:
    """These cameras' pixels inverted."""
    flipped = {k: 255 - v if k in keys else v for k, v in observation.images.items()}
    return replace(observation, images=flipped)
