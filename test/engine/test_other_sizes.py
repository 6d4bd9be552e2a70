# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Nothing is wired to the golden fixtures: every layout with other dimensions, camera names and
counts, steps and horizons loads, infers, and answers a request alike alone and in a batch."""

from dataclasses import replace

import numpy as np
import other_sizes
import pytest
import torch

from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation

PALM = ("observation.images.ceiling", "observation.images.palm")
OPENPI = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
LETTERS = tuple(f"observation.images.{name}" for name in "abcd")
DIFFUSION = tuple(f"observation.images.{name}" for name in "lmr")
EXPECTED = {
    # cameras, state, action, horizon, denoising steps, the model's own action width
    "pi0": (PALM, 10, 3, 9, 3, 11),
    "pi05": (PALM, 10, 3, 9, 3, 11),
    "pi0_openpi": (OPENPI, 10, 4, 9, 3, 11),
    "pi05_openpi": (OPENPI, 10, 4, 9, 3, 11),
    "smolvla": (LETTERS, 5, 8, 5, 4, 9),
    "act": (("observation.images.only",), 4, 6, 13, 1, 6),
    "diffusion": (DIFFUSION, 2, 3, 5, 4, 3),
    "gr00t_n17": (("one", "two", "three"), 8, 8, 7, 3, 9),
}
WORDS = ("go", "pick up the red block and put it away", "")


@pytest.fixture(scope="module", params=other_sizes.LAYOUTS)
def policy(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    other_sizes.LAYOUTS[request.param](root)
    return request.param, load_policy(root)


def observations(spec, count):
    rng = np.random.default_rng(1)
    made = []
    for i in range(count):
        images = {
            key: rng.integers(0, 256, (*spec.camera_sizes.get(key, (37, 53)), 3), dtype=np.uint8)
            for key in spec.cameras
        }
        history = tuple(
            Observation(images, rng.normal(size=spec.state_dim), "") for _ in range(spec.history)
        )
        state = rng.normal(size=spec.state_dim)
        made.append(Observation(images, state, WORDS[i % len(WORDS)], history=history))
    return made


def noise(policy, count):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(policy.noise_shape(count), generator=generator)


def test_the_sizes_are_the_checkpoints(policy):
    layout, policy = policy
    spec = policy.spec
    found = (
        spec.cameras, spec.state_dim, spec.action_dim, spec.horizon, spec.denoising_steps,
        spec.model_action_dim,
    )  # fmt: skip
    assert found == EXPECTED[layout]


def test_alone_as_in_a_batch(policy):
    _, policy = policy
    seen, x = observations(policy.spec, 5), noise(policy, 5)
    together = policy.infer_batch(seen, x)
    for i, (request, chunk) in enumerate(zip(seen, together, strict=True)):
        assert chunk.actions.shape == (policy.spec.horizon, policy.spec.action_dim)
        assert np.isfinite(chunk.actions).all()
        alone = policy.infer(request, x[i]).normalised
        assert np.abs(alone - chunk.normalised).max() < 2e-5 * np.abs(alone).max()


def test_every_part_of_the_observation_is_read(policy):
    _, policy = policy
    spec, x = policy.spec, noise(policy, 1)
    (request,) = observations(spec, 1)
    before = policy.infer(request, x).normalised
    changed = [replace(request, state=request.state + 0.3)]
    changed += [
        replace(request, images={**request.images, key: 255 - request.images[key]})
        for key in spec.cameras
    ]
    if "instruction" not in spec.ignores:
        changed.append(replace(request, instruction="open the drawer"))
    for other in changed:
        assert np.abs(policy.infer(other, x).normalised - before).max() > 1e-5


def test_bfloat16_stays_near(policy):
    _, exact = policy
    rough = load_policy(exact.spec.checkpoint, dtype="bfloat16")
    (request,) = observations(exact.spec, 1)
    x = noise(exact, 1)
    found, expected = (p.infer(request, x).normalised for p in (rough, exact))
    assert 0 < np.abs(found - expected).max() < 0.1 * np.abs(expected).max()
