# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Training to go on from decided rows: what the demonstrations say, and that training conditions a
row as the engine does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phyai_ros.sim import expert, task
from phyai_ros.sim import kinematics as kin
from tools.train import families, follow

ROOT = Path(__file__).resolve().parents[2]
HORIZON, STEP = 16, 0.05
BELT = 0.64


def samples(count, belt=BELT):
    rng = np.random.default_rng(4)
    for _ in range(count):
        moment = follow.draw(rng, belt)
        yield moment.state, follow.chunks(moment, moment.state.joints, HORIZON)


def test_a_chunk_goes_on_from_its_decided_rows_without_a_step():
    for _, chunks in samples(60):
        assert chunks.shape == (follow.MAX_DELAY + 1, HORIZON, 7)
        plan = chunks[follow.MAX_DELAY, : follow.MAX_DELAY]
        for d in range(1, follow.MAX_DELAY + 1):
            np.testing.assert_array_equal(chunks[d, :d], plan[:d])
            steps = np.abs(np.diff(chunks[d], axis=0))
            # The expert's cruise, and what the block's own motion asks of the joints.
            assert (steps[d - 1] <= expert.CRUISE * STEP + 0.02).all()
            if d > 1:  # and it turns no faster than a plan does
                turns = np.abs(np.diff(chunks[d], n=2, axis=0))
                assert (turns[d - 2] <= 0.4 * 2 * (expert.CRUISE * STEP + 0.02)).all()


def test_with_a_plan_the_moving_block_is_followed_without_one_it_is_taken_as_standing():
    moved = 0
    for state, chunks in samples(200):
        end = np.clip(state.target_block + HORIZON * STEP * state.velocity, *task.WORKSPACE.T)
        still = task.target_point(state.target_block)
        there = task.target_point(end)
        for d in (1, 4, 8):
            tool, _ = kin.tool(chunks[d, [d - 1, -1], :6])
            from_plan, last = tool
            assert np.linalg.norm(last - there) <= np.linalg.norm(from_plan - there) + 0.05
        near = np.linalg.norm(kin.tool(state.joints[:6])[0] - still) < 0.05
        if near and state.velocity[1]:
            alone, _ = kin.tool(chunks[0, -1, :6])
            along, _ = kin.tool(chunks[2, -1, :6])
            way = np.sign(state.velocity[1])
            moved += way * (along - alone)[1] > 0.4 * abs(state.velocity[1]) * HORIZON * STEP
    assert moved > 20


def test_plans_are_not_always_right():
    """Else the policy would learn to go on and not to look."""
    off = []
    for state, chunks in samples(200):
        ahead = expert.chunks(state.joints, state.target_block, state.velocity, HORIZON, STEP)
        off.append(np.abs(chunks[4, :4, :6] - ahead[:4, :6]).max())
    assert np.quantile(off, 0.5) > 1e-3


def test_without_a_belt_nothing_moves():
    for state, _ in samples(20, belt=None):
        assert not state.velocity.any()


@pytest.fixture(scope="module")
def trainee():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    family = families.make("pi05_rtc")
    model = family.build().eval()
    families.load_state(model, ROOT / "phyai_ros" / "checkpoints" / "pi05_ur10e_small")
    return family, model, family.random_batch(3, torch.device("cpu"))


@torch.no_grad()
def test_training_conditions_every_row_as_the_engine_does(trainee):
    _, model, batch = trainee
    policy = model.policy
    steps = policy.config.denoising_steps
    _, prefix = model.encode(batch.images.float() / 127.5 - 1, batch)
    committed = torch.arange(HORIZON) < torch.tensor([0, 3, 8])[:, None]
    x = torch.randn(3, HORIZON, 7)
    constants = policy.constants(steps)
    for i in range(steps):
        time = torch.full((3, 1), 1.0 - i / steps)
        ours = policy.velocity(x, prefix, model.conditions(time, committed))
        theirs = policy.predict(x, i, policy.commit(prefix, committed), constants)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        plain = policy.velocity(x, prefix, policy.condition(time))
        torch.testing.assert_close(ours[0], plain[0], rtol=1e-4, atol=1e-5)
        assert (ours[2] - plain[2]).abs().max() > 1e-4


@torch.no_grad()
def test_the_loss_is_of_the_free_rows_alone(trainee, monkeypatch):
    """Whatever the network says of decided rows costs nothing, and they enter without noise."""
    _, model, batch = trainee
    _, prefix = model.encode(batch.images.float() / 127.5 - 1, batch)
    seen = {}

    def velocity(x, many, condition):
        seen["x"] = x
        return torch.full_like(x, 1e6).masked_fill(~seen["rows"][..., None], 0.0)

    def conditions(time, committed):
        seen["rows"] = committed
        return torch.zeros(())

    monkeypatch.setattr(model.policy, "velocity", velocity)
    monkeypatch.setattr(model, "conditions", conditions)
    torch.manual_seed(1)
    loss = model.flow(prefix, batch.chunk)
    rows = seen["rows"]
    assert rows.any()
    assert (~rows.any(1)).any()
    count = rows.sum(1)
    chunks = batch.chunk.repeat_interleave(model.draws, dim=0)
    clean = chunks[torch.arange(len(rows)), count]
    torch.testing.assert_close(seen["x"][rows], clean[rows])
    assert (seen["x"][~rows] - clean[~rows]).abs().min() > 0
    assert loss < 100.0
