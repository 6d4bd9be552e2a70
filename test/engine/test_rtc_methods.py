# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""rtc_vjp against an explicit Jacobian, rtc_trained's row-wise time, and both through a policy."""

import json
from dataclasses import replace

import numpy as np
import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error, tensors
from gr00t_case import load_e2e
from safetensors.torch import load_file, save_file
from test_pi_batch import noise, observations

from phyai_ros.engine import guidance, rtc, solver
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Guidance, PolicyError
from phyai_ros.tools import check_inputs


def toy(dtype=torch.float64):
    """A flow with a dense, x-dependent Jacobian: (predict, noise, target, weights)."""
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(12, 12, generator=generator, dtype=dtype) / 4

    def predict(x, step):
        return torch.tanh(x.flatten(1) @ mix + 0.1 * step).view_as(x) * 1.5

    x = torch.randn(1, 4, 3, generator=generator, dtype=dtype)
    target = torch.randn(1, 4, 3, generator=generator, dtype=dtype)
    weights = solver.prefix_weights(1, 3, 4)[None, :, None].to(dtype)
    return predict, x, target, weights


@pytest.mark.parametrize("tau", [0.0, 0.2, 0.6, 0.9])
@pytest.mark.parametrize("limit", [None, 0.7])
def test_vjp_is_the_papers_formula(tau, limit):
    predict, x, target, weights = toy()
    steps = 5

    def estimate(z):
        return z + (1 - tau) * predict(z, 2)

    jacobian = torch.autograd.functional.jacobian(estimate, x).reshape(12, 12)
    error = ((target - estimate(x)) * weights).reshape(12)
    weight = solver.rtc_weight(tau, steps if limit is None else limit)
    expected = predict(x, 2) + weight * (error @ jacobian).view_as(x)
    found = rtc.RtcVjp(target, weights, limit).evaluate(lambda z: predict(z, 2), x, tau, steps)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert not found.requires_grad
    identity = solver.RtcIdentity(target, weights, limit).velocity(x, predict(x, 2), tau, steps)
    assert relative_error(identity, expected) > 1e-3  # the Jacobian does count


@pytest.mark.parametrize("solve", [solver.flow_forward, solver.flow_backward])
def test_vjp_pulls_the_chunk_towards_the_left_over(solve):
    predict, x, target, weights = toy()
    signed = predict if solve is solver.flow_forward else lambda z, i: -predict(z, i)
    plain = solve(signed, x, 10)
    guided = solve(signed, x, 10, rtc.RtcVjp(target, weights))

    def distance(chunk):
        return ((chunk - target) * weights).norm()

    assert distance(guided) < 0.5 * distance(plain)


@pytest.fixture(scope="module")
def policy():
    return load_policy(GOLDEN / "pi05")


@needs_golden
def test_vjp_through_the_model(policy):
    model = policy.adapter.model
    arrays = tensors("pi05", "case0")
    batch = pi_cases.inputs(arrays, model.config.state_width)
    with torch.no_grad():
        prefix, constants = model.prefix(batch, model.vision(batch)), model.constants(10)
    x, tau = arrays["noise"], 0.3
    target = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    weights = solver.prefix_weights(2, 6, x.shape[1])[None, :, None]

    def toward(z):
        return -model.predict(z, 3, prefix, constants)

    def estimate(z):
        return z + (1 - tau) * toward(z)

    jacobian = torch.autograd.functional.jacobian(estimate, x).reshape(x.numel(), x.numel())
    with torch.no_grad():
        error = ((target - estimate(x)) * weights).flatten()
        weight = solver.rtc_weight(tau, 10.0)
        expected = toward(x) + weight * (error @ jacobian).view_as(x)
    with torch.no_grad():  # as the runner calls it
        found = rtc.RtcVjp(target, weights).evaluate(toward, x, tau, 10)
    assert relative_error(found, expected) < 1e-5


def wish(policy, observation, method, committed=3, seed=0):
    rng = np.random.default_rng(seed)
    shape = (policy.spec.horizon, policy.spec.model_action_dim)
    x = rng.normal(size=(1, *shape)).astype(np.float32)
    (actions,) = policy.adapter.decode(x, [observation])
    return Guidance(actions[:8], committed, method, execution_horizon=3)


@needs_golden
@pytest.mark.parametrize("method", ["rtc_identity", "rtc_vjp"])
def test_guidance_through_the_policy(policy, method):
    seen = observations(policy, 3)
    x = noise(policy, 3)
    wishes = [wish(policy, seen[0], method), None, wish(policy, seen[2], method, seed=5)]
    plain = policy.infer_batch(seen, x)
    guided = policy.infer_batch(seen, x, wishes)
    np.testing.assert_allclose(guided[1].normalised, plain[1].normalised, atol=1e-5)
    for i in (0, 2):
        target = policy.adapter.encode(wishes[i].leftover, seen[i])[:3, : policy.spec.action_dim]

        def distance(chunk, target=target):
            return np.abs(chunk.normalised[:3, : policy.spec.action_dim] - target).max()

        assert distance(guided[i]) < 0.5 * distance(plain[i])
        alone = policy.infer(seen[i], x[i], wishes[i])
        np.testing.assert_allclose(alone.normalised, guided[i].normalised, atol=1e-4)


@needs_golden
@torch.no_grad()
def test_columns_of_no_robot_agree_with_zeros(policy):
    """LeRobot pads a left-over with zeros to the model's width, and all of it counts."""
    model, spec = policy.adapter.model, policy.spec
    assert spec.action_dim < spec.model_action_dim
    (seen,) = observations(policy, 1)
    x, asked = noise(policy, 1), wish(policy, seen, "rtc_identity")
    batch = policy.adapter.prepare([seen])
    prefix, constants = model.prefix(batch, model.vision(batch)), model.constants(10)
    target = torch.zeros(x.shape)
    target[0, :8] = torch.from_numpy(policy.adapter.encode(asked.leftover, seen))
    weights = solver.prefix_weights(3, min(spec.horizon - 3, 8), spec.horizon)[None, :, None]
    guide = solver.RtcIdentity(target, weights)
    expected = solver.flow_backward(
        lambda z, i: model.predict(z, i, prefix, constants), x, spec.denoising_steps, guide
    )
    found = torch.from_numpy(policy.infer(seen, x, asked).normalised)
    assert relative_error(found, expected[0]) < 1e-5
    padding = found[:3, spec.action_dim :]
    assert padding.abs().max() < 0.2 * x[0, :3, spec.action_dim :].abs().max()


@needs_golden
@pytest.mark.parametrize("method", ["rtc_identity", "rtc_vjp"])
def test_columns_of_no_robot_are_left_free_where_training_left_them_out(method):
    """GR00T's loss has a mask: what it answers there is nothing that zeros are the wish of."""
    policy, seen, _ = load_e2e("e2e0")
    dim = policy.spec.action_dim
    assert dim < policy.spec.model_action_dim
    asked = wish(policy, seen, method)
    guide = guidance.guide([asked], [seen], policy.adapter, torch.device("cpu"))
    assert guide.weights[0, :3, :dim].min() == 1
    assert not guide.weights[..., dim:].any()


@needs_golden
@pytest.mark.parametrize("method", ["rtc_identity", "rtc_vjp", "seam"])
@pytest.mark.parametrize("fixture", ["pi0", "pi05", "smolvla", "pi05_openpi"])
def test_a_column_that_never_moved_in_training_pulls_at_nothing(tmp_path, fixture, method):
    """Commands beside its one value, a ramp's say, were tens of thousands to the model, and all
    other columns went anywhere."""
    directory = pi_cases.copy(fixture, tmp_path)
    freeze(directory, column=2)
    policy = load_policy(directory)
    (seen,) = check_inputs.observations(policy.spec, 1)
    x = torch.randn(policy.noise_shape(1), generator=torch.Generator().manual_seed(0))
    rows = policy.infer(seen, x + 0.1).actions[: policy.spec.horizon - 2]
    beside = rows.copy()
    beside[:, 2] += 3e-4
    on, off = (policy.infer(seen, x, Guidance(r, 2, method, 3)).actions for r in (rows, beside))
    np.testing.assert_allclose(off, on, rtol=0, atol=1e-5)
    assert np.abs(on - policy.infer(seen, x).actions).max() > 1e-3


def freeze(directory, column):
    """One column of the actions has one value in all statistics."""
    for path in directory.glob("policy_*.safetensors"):
        found = load_file(path)
        for name, values in found.items():
            if name.startswith("action.") and values.ndim == 1 and len(values) > column:
                values[column] = 0.0 if name.endswith("std") else 0.25
        save_file(found, path)
    for path in directory.glob("assets/*/norm_stats.json"):
        content = json.loads(path.read_text())
        for name, values in content["norm_stats"]["actions"].items():
            values[column] = 0.0 if name == "std" else 0.25
        path.write_text(json.dumps(content))


@pytest.fixture
def trained(tmp_path):
    """pi05 as a checkpoint whose config says that it was trained with up to four decided rows."""
    directory = pi_cases.copy("pi05", tmp_path)
    pi_cases.edit_json(directory / "config.json", rtc_training_max_delay=4)
    return load_policy(directory)


@needs_golden
def test_only_a_trained_checkpoint_offers_rtc_trained(policy, trained):
    assert "rtc_trained" not in policy.spec.guidance_methods
    assert "rtc_trained" in trained.spec.guidance_methods
    (seen,) = observations(trained, 1)
    with pytest.raises(PolicyError, match=r"5 committed rows.*at most 4.*rtc_training_max_delay"):
        trained.infer(seen, noise(trained, 1), wish(trained, seen, "rtc_trained", committed=5))
    with pytest.raises(PolicyError, match=r"guidance 'rtc_trained' is not one"):
        policy.infer(seen, noise(policy, 1), wish(policy, seen, "rtc_trained"))


@needs_golden
@torch.no_grad()
@pytest.mark.parametrize("fixture", pi_cases.LEROBOT)
def test_row_wise_time_is_each_rows_own(fixture):
    """Against LeRobot's formula written out: time 0 on decided rows, those rows held."""
    model = load_policy(GOLDEN / fixture).adapter.model
    arrays = tensors(fixture, "case1")
    batch = pi_cases.inputs(arrays, model.config.state_width)
    prefix = model.prefix(batch, model.vision(batch))
    x, steps = arrays["noise"], 5
    target = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    committed = torch.arange(x.shape[1]) < torch.tensor([[3], [0]])
    guide = rtc.RtcTrained(target, committed)
    constants = model.constants(steps)
    held = model.commit(prefix, committed)
    found = solver.flow_backward(lambda z, i: model.predict(z, i, held, constants), x, steps, guide)
    rows = committed[..., None]
    expected = x
    for i in range(steps):
        expected = torch.where(rows, target, expected)
        time = torch.full(committed.shape, 1.0 - i / steps).masked_fill(committed, 0.0)
        velocity = model.velocity(expected, prefix, model.condition(time))
        expected = torch.where(rows, target, expected - velocity / steps)
    assert relative_error(found, expected) < 1e-5
    torch.testing.assert_close(found[0, :3], target[0, :3], rtol=0, atol=0)
    plain = solver.flow_backward(lambda z, i: model.predict(z, i, prefix, constants), x, steps)
    assert relative_error(found[1], plain[1]) < 1e-5  # no decided row: nothing changes
    assert relative_error(found[0, 3:], plain[0, 3:]) > 1e-3


@needs_golden
@torch.no_grad()
@pytest.mark.parametrize("fixture", ["pi05"])
def test_the_fused_form_takes_decided_rows_alike(trained, fixture):
    model = trained.adapter.model
    arrays = tensors(fixture, "case1")
    batch = pi_cases.inputs(arrays, model.config.state_width)
    x, steps = arrays["noise"], 5
    target = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    committed = torch.arange(x.shape[1]) < torch.tensor([[3], [0]])
    found = []
    for form in (model, model.fused(Operators())):
        prefix = form.commit(form.prefix(batch, form.vision(batch)), committed)
        constants = form.constants(steps)

        def predict(z, i, form=form, prefix=prefix, constants=constants):
            return form.predict(z, i, prefix, constants)

        found.append(solver.flow_backward(predict, x, steps, rtc.RtcTrained(target, committed)))
    assert relative_error(found[1], found[0]) < 1e-5


@needs_golden
def test_rtc_trained_through_the_policy(trained):
    seen = observations(trained, 2)
    x = noise(trained, 2)
    wishes = [wish(trained, seen[0], "rtc_trained", committed=4), None]
    guided = trained.infer_batch(seen, x, wishes)
    np.testing.assert_allclose(guided[0].actions[:4], wishes[0].leftover[:4], rtol=0, atol=1e-5)
    plain = trained.infer_batch(seen, x)
    np.testing.assert_allclose(guided[1].normalised, plain[1].normalised, atol=1e-5)
    other = replace(wishes[0], leftover=wishes[0].leftover + 0.2)
    moved = trained.infer_batch(seen, x, [other, None])
    assert np.abs(moved[0].normalised[4:] - guided[0].normalised[4:]).max() > 1e-3
