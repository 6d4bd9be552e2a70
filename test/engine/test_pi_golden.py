# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0 and pi0.5 against the official implementations: every tensor of every case."""

import numpy as np
import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error, tensors

from phyai_ros.engine.models.paligemma.gemma import rope
from phyai_ros.engine.policy import load_policy

pytestmark = needs_golden
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def policies():
    return {fixture: load_policy(GOLDEN / fixture) for fixture in pi_cases.FIXTURES}


@pytest.fixture(scope="module", params=pi_cases.names(end_to_end=False), ids="-".join)
def case(request, policies):
    """(model, arrays, inputs, number of steps)"""
    fixture, name = request.param
    model = policies[fixture].adapter.model
    arrays = tensors(fixture, name)
    batch = pi_cases.inputs(arrays, model.config.state_width)
    return model, arrays, batch, pi_cases.meta(fixture, name)["num_steps"]


def need(arrays, *names):
    """The arrays, or a skip where this fixture records none of them."""
    if names[0] not in arrays:
        pytest.skip(f"the fixture does not record {names[0]}")
    return [arrays[name] for name in names]


@torch.no_grad()
def test_velocity_and_every_solver_state(case):
    model, arrays, batch, steps = case
    first, trace = pi_cases.sample(model, batch, arrays["noise"], steps)
    assert relative_error(first, arrays["velocity_first"]) < TOLERANCE
    assert relative_error(trace[:, -1], arrays["actions"]) < TOLERANCE
    if "x_after_each_step" in arrays:
        for step in range(steps):
            expected = arrays["x_after_each_step"][:, step]
            assert relative_error(trace[:, step], expected) < TOLERANCE, step


@torch.no_grad()
def test_image_features(case):
    model, arrays, batch, _ = case
    cameras = range(batch.images.shape[1])
    expected = need(arrays, *(f"image_features.{i}" for i in cameras))
    assert relative_error(model.vision(batch), torch.stack(expected, 1)) < TOLERANCE


@torch.no_grad()
def test_prefix(case):
    model, arrays, batch, _ = case
    (embeddings,) = need(arrays, "prefix_embs")
    x, exists = model.embed_prefix(batch, model.vision(batch))
    assert relative_error(x, embeddings) < TOLERANCE
    if "prefix_pad_mask" not in arrays:
        return
    torch.testing.assert_close(exists, arrays["prefix_pad_mask"], rtol=0, atol=0)
    positions = exists.cumsum(1) - 1
    torch.testing.assert_close(positions, arrays["prefix_position_ids"], rtol=0, atol=0)
    hidden, cache = model.language(
        x, rope(positions, model.config.language), exists[:, None, None, :]
    )
    expected = arrays["prefix_last_hidden"][exists]
    assert relative_error(hidden[exists], expected) < TOLERANCE
    for which, layer in (("first", cache[0]), ("last", cache[-1])):
        for name, found in (("k", layer.key), ("v", layer.value)):
            rows = exists[:, None, :].expand(found.shape[:3])
            expected = arrays[f"prefix_{name}.{which}"]
            assert relative_error(found[rows], expected[rows]) < TOLERANCE, (name, which)


@torch.no_grad()
def test_cached_prefix_is_the_language_models(case):
    """What the expert reads is what ``test_prefix`` checked, the last layer's tail left out."""
    model, _, batch, _ = case
    features = model.vision(batch)
    x, exists = model.embed_prefix(batch, features)
    positions = rope(exists.cumsum(1) - 1, model.config.language)
    _, cache = model.language(x, positions, exists[:, None, None, :])
    prefix = model.prefix(batch, features)
    for ours, theirs in zip(prefix.layers, cache, strict=True):
        length = theirs.key.shape[2]
        assert relative_error(ours.key[:, :, :length], theirs.key) < 1e-6
        assert relative_error(ours.value[:, :, :length], theirs.value) < 1e-6


@torch.no_grad()
def test_time_and_suffix(case):
    model, arrays, batch, steps = case
    (embedding,) = need(arrays, "time_embedding")
    time = torch.ones(len(batch.tokens))
    assert relative_error(model.embed_time(time), embedding) < 1e-6
    constants = model.constants(steps)
    if "adarms_cond" in arrays:
        assert relative_error(model.embed_condition(time), arrays["adarms_cond"]) < TOLERANCE
        suffix = model.action_in(arrays["noise"])
    else:
        actions = model.embed_actions(arrays["noise"], constants[:1])
        suffix = torch.cat((model.embed_state(batch.state), actions), 1)
    assert relative_error(suffix, arrays["suffix_embs"]) < TOLERANCE


@pytest.fixture(scope="module", params=pi_cases.names(end_to_end=True), ids="-".join)
def end_to_end(request, policies):
    fixture, name = request.param
    policy = policies[fixture]
    observation = pi_cases.observation(fixture, name)
    return policy, tensors(fixture, name), observation, policy.adapter.prepare([observation])


def test_tokens(end_to_end):
    _, arrays, _, batch = end_to_end
    count = int(arrays["e2e.token_mask"].sum())
    assert int(batch.token_mask.sum()) == count
    assert batch.token_mask[0, :count].all()
    assert batch.tokens[0, :count].tolist() == arrays["e2e.tokens"][0, :count].tolist()


def test_state(end_to_end):
    _, arrays, _, batch = end_to_end
    name = "e2e.state_padded" if "e2e.state_padded" in arrays else "e2e.state_normalised"
    expected = arrays[name]
    torch.testing.assert_close(batch.state[:, : expected.shape[1]], expected, rtol=0, atol=0)
    assert not batch.state[:, expected.shape[1] :].any()


def test_images(end_to_end):
    policy, arrays, observation, batch = end_to_end
    expected = []
    for slot, camera in enumerate(policy.spec.cameras):
        made = arrays.get(f"e2e.images.{slot}")
        if made is None and f"e2e.image_uint8.{camera}" in arrays:
            pixels = arrays[f"e2e.image_uint8.{camera}"]
            made = (pixels.float() / 255 * 2 - 1).permute(2, 0, 1)[None]
        if made is not None and (made != -1).any():  # an absent camera's is all -1
            expected.append(made)
    assert len(expected) == len(observation.images)
    assert batch.image_mask.tolist() == [[True] * len(expected)]
    torch.testing.assert_close(batch.images, torch.stack(expected, 1), rtol=0, atol=1e-6)


def test_robot_units(end_to_end):
    policy, arrays, observation, _ = end_to_end
    chunk = policy.infer(observation, noise=arrays["e2e.noise"])
    expected = arrays["e2e.action_chunk"].double().reshape(chunk.actions.shape)
    assert chunk.actions.dtype == np.float64
    assert relative_error(torch.from_numpy(chunk.actions), expected) < TOLERANCE
    for name in ("e2e.action_chunk_normalised", "e2e.actions_normalised"):
        if name in arrays:
            expected = arrays[name][0]
            found = torch.from_numpy(chunk.normalised)[:, : expected.shape[1]]
            assert relative_error(found, expected) < TOLERANCE


def test_encode_undoes_decode(end_to_end):
    policy, arrays, observation, _ = end_to_end
    chunk = policy.infer(observation, noise=arrays["e2e.noise"])
    back = policy.adapter.encode(chunk.actions, observation)
    width = policy.spec.action_dim
    np.testing.assert_allclose(back[:, :width], chunk.normalised[:, :width], rtol=0, atol=1e-5)
    assert not back[:, width:].any()
