# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""rtc_identity against LeRobot's guided real-time chunking, step by step."""

import pi_cases
import pytest
import torch
from golden import GOLDEN, cases, needs_golden, relative_error, tensors

from phyai_ros.engine import solver
from phyai_ros.engine.policy import load_policy

pytestmark = needs_golden
TOLERANCE = 1e-5
FILE = cases("rtc") if GOLDEN.is_dir() else {"cases": []}
GUIDED = [c for c in FILE["cases"] if "rtc" in c]
TABLE = [n for c in FILE["cases"] for n in c["tensors"] if n.startswith("weights.")]


@pytest.fixture(scope="module")
def model():
    return load_policy(GOLDEN / "pi05").adapter.model


@pytest.mark.parametrize("name", TABLE)
def test_prefix_weights(name):
    (expected,) = [v for k, v in tensors("rtc").items() if k.endswith(name)]
    _, schedule, limits = name.split(".")
    start, end, total = (int("".join(filter(str.isdigit, part))) for part in limits.split("_"))
    found = solver.prefix_weights(start, end, total, schedule.lower())
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-7)


def guide(case, arrays, horizon, width):
    """The left-over, padded, and its weights, as LeRobot takes them; None without a left-over."""
    given = arrays.get("prev_chunk_left_over")
    if given is None:
        return None
    given = given if given.ndim == 3 else given[None]
    target = torch.zeros(case["batch"], horizon, width)
    target[:, : given.shape[1], : given.shape[2]] = given
    about = case["rtc"]
    end = min(about["execution_horizon"], given.shape[1])
    weights = solver.prefix_weights(
        about["inference_delay"], end, horizon, about["schedule"].lower()
    )
    torch.testing.assert_close(weights, arrays["prefix_weights"], rtol=0, atol=2e-7)
    return solver.RtcIdentity(target, weights[None, :, None], about["max_guidance_weight"])


@torch.no_grad()
@pytest.mark.parametrize("case", GUIDED, ids=lambda c: c["name"])
def test_guided_chunk(model, case):
    arrays, steps = tensors("rtc", case["name"]), case["num_steps"]
    batch = pi_cases.inputs(arrays, model.config.state_width)
    prefix, constants = model.prefix(batch, model.vision(batch)), model.constants(steps)

    def predict(x, step):
        return model.predict(x, step, prefix, constants)

    noise = arrays["noise"]
    plain = solver.flow_backward(predict, noise, steps)
    assert relative_error(plain, arrays["actions_unguided"]) < TOLERANCE
    rtc = guide(case, arrays, model.config.horizon, model.config.action_width)
    guided = solver.flow_backward(predict, noise, steps, rtc)
    assert relative_error(guided, arrays["actions"]) < TOLERANCE
    effect = (guided - plain).abs().max().item()
    assert effect == pytest.approx(case["max_abs_effect_of_guidance"], abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    "case", [c for c in GUIDED if "correction" in c["tensors"]], ids=lambda c: c["name"]
)
def test_every_step(model, case):
    """From the recorded x of each step: estimate, error, weight and guided velocity."""
    arrays, steps = tensors("rtc", case["name"]), case["num_steps"]
    rtc = guide(case, arrays, model.config.horizon, model.config.action_width)
    x = arrays["noise"]
    for step in range(steps):
        tau = step / steps
        estimate = arrays["denoised_estimate"][:, step]
        weight = solver.rtc_weight(tau, case["rtc"]["max_guidance_weight"])
        assert weight == pytest.approx(arrays["guidance_weight"][step].item(), rel=1e-5)
        towards = (estimate - x) / (1 - tau)
        found = -rtc.velocity(x, towards, tau, steps)
        expected = arrays["guided_velocity"][:, step]
        assert relative_error(found, expected) < 5e-5  # the quotient above loses digits near tau 1
        correction = (rtc.target - estimate) * rtc.weights
        assert relative_error(correction, arrays["correction"][:, step]) < TOLERANCE
        x = x - expected / steps
    assert relative_error(x, arrays["actions"]) < TOLERANCE
