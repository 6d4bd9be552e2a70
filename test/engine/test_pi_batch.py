# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A chunk depends on its own request only: not on the batch, the padding or an absent camera."""

from dataclasses import replace

import numpy as np
import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error

from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation

pytestmark = needs_golden
INSTRUCTIONS = ("go", "pick up the red block and put it into the bowl", "open the drawer", "stop")


@pytest.fixture(scope="module", params=pi_cases.FIXTURES)
def policy(request):
    return load_policy(GOLDEN / request.param)


def observations(policy, count=8):
    rng = np.random.default_rng(7)
    spec = policy.spec
    made = []
    for i in range(count):
        cameras = spec.cameras if i % 3 else spec.cameras[: 1 + i % 2]
        size = (40 + 3 * i, 64 - 2 * i, 3)
        images = {key: rng.integers(0, 256, size, dtype=np.uint8) for key in cameras}
        state = rng.normal(size=spec.state_dim)
        made.append(Observation(images, state, INSTRUCTIONS[i % len(INSTRUCTIONS)]))
    return made


def noise(policy, count):
    shape = policy.adapter.noise_shape(count)
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def test_alone_as_in_a_batch_of_eight(policy):
    seen, x = observations(policy), noise(policy, 8)
    together = policy.infer_batch(seen, x)
    for i, observation in enumerate(seen):
        alone = policy.infer(observation, x[i])
        assert relative_error(torch.tensor(together[i].actions), torch.tensor(alone.actions)) < 1e-5
    spread = np.ptp(np.stack([c.normalised for c in together]), axis=0)
    assert spread.max() > 0.1  # the requests do differ


def with_absent_camera(batch):
    absent = torch.full_like(batch.images[:, :1], -1.0)
    nobody = torch.zeros_like(batch.image_mask[:, :1])
    return replace(
        batch,
        images=torch.cat((batch.images, absent), 1),
        image_mask=torch.cat((batch.image_mask, nobody), 1),
    )


@torch.no_grad()
def test_padding_changes_nothing(policy):
    adapter, model = policy.adapter, policy.adapter.model
    batch = adapter.prepare(observations(policy, 2))
    x = noise(policy, 2)
    _, short = pi_cases.sample(model, batch, x, 3)
    garbage = torch.full((2, 24), 7)
    longer = replace(
        batch,
        tokens=torch.cat((batch.tokens, garbage), 1),
        token_mask=torch.cat((batch.token_mask, torch.zeros(2, 24, dtype=torch.bool)), 1),
    )
    _, long = pi_cases.sample(model, longer, x, 3)
    assert relative_error(long, short) < 1e-5
    seen = replace(longer, token_mask=torch.ones_like(longer.token_mask))
    _, read = pi_cases.sample(model, seen, x, 3)
    assert relative_error(read, short) > 1e-3  # it is the mask that hides them


@torch.no_grad()
def test_pixels_of_an_absent_camera_change_nothing(policy):
    adapter, model = policy.adapter, policy.adapter.model
    batch = with_absent_camera(adapter.prepare(observations(policy, 1)))
    absent = batch.images.shape[1] - 1
    x = noise(policy, 1)
    _, before = pi_cases.sample(model, batch, x, 3)
    images = batch.images.clone()
    images[:, absent] = torch.rand(images[:, absent].shape)
    _, after = pi_cases.sample(model, replace(batch, images=images), x, 3)
    assert relative_error(after, before) < 1e-6
    mask = torch.ones_like(batch.image_mask)
    _, shown = pi_cases.sample(model, replace(batch, images=images, image_mask=mask), x, 3)
    assert relative_error(shown, before) > 1e-3


@torch.no_grad()
def test_a_slot_that_nobody_fills_may_be_left_out(policy):
    """The references encode an all -1 image there and mask it."""
    batch = policy.adapter.prepare(observations(policy, 1))
    assert batch.image_mask.all()
    x = noise(policy, 1)
    _, without = pi_cases.sample(policy.adapter.model, batch, x, 3)
    _, masked = pi_cases.sample(policy.adapter.model, with_absent_camera(batch), x, 3)
    assert relative_error(without, masked) < 1e-5


def test_cameras_take_the_ecosystems_slots(policy):
    """LeRobot moves present cameras to the front, openpi keeps their slots."""
    cameras = policy.spec.cameras
    first, second = observations(policy, 2)
    image = next(iter(first.images.values()))
    one = replace(first, images={cameras[1]: image})
    both = replace(second, images={cameras[0]: image, cameras[1]: image})
    mask = policy.adapter.prepare([one, both]).image_mask.tolist()
    moved = policy.adapter.transforms.absent_last
    assert mask == [[True, False] if moved else [False, True], [True, True]]


@pytest.mark.parametrize("part", ["image", "state", "instruction"])
def test_every_part_of_the_observation_is_read(policy, part):
    (seen,) = observations(policy, 1)
    x = noise(policy, 1)
    before = policy.infer(seen, x).normalised
    changed = {
        "image": lambda: replace(seen, images={k: 255 - v for k, v in seen.images.items()}),
        "state": lambda: replace(seen, state=seen.state + 0.3),
        "instruction": lambda: replace(seen, instruction="close the door"),
    }[part]()
    after = policy.infer(changed, x).normalised
    assert np.abs(after - before).max() > 1e-4
    again = policy.infer(seen, x).normalised
    np.testing.assert_array_equal(again, before)
