# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The discrete solvers against what they must do whatever the network."""

import pytest
import torch

from phyai_ros.engine.noise_schedule import BETA_SCHEDULES, Ddim, Ddpm, NoiseSchedule
from phyai_ros.engine.types import PolicyError


@pytest.mark.parametrize("beta_schedule", BETA_SCHEDULES)
@pytest.mark.parametrize("steps", [1, 3, 10, 100])
def test_a_network_that_knows_the_answer_leads_to_it(beta_schedule, steps):
    """A network that names the true noise in x makes DDIM end at the clean sample."""
    clean = torch.linspace(-0.9, 0.9, 12).reshape(1, 4, 3)
    schedule = NoiseSchedule(100, steps, beta_schedule)

    def predict(x: torch.Tensor, i: int) -> torch.Tensor:
        level = schedule.signal[schedule.timesteps[i]]
        return (x - level**0.5 * clean) / (1 - level) ** 0.5

    noise = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Ddim(schedule)(predict, noise, steps), clean, atol=1e-4, rtol=0)


@pytest.mark.parametrize("prediction", ["epsilon", "sample"])
def test_without_noise_ddpm_ends_at_the_predicted_sample(prediction):
    schedule = NoiseSchedule(100, 10, prediction=prediction)
    clean = torch.full((1, 2, 2), 0.3)

    def predict(x: torch.Tensor, i: int) -> torch.Tensor:
        level = schedule.signal[schedule.timesteps[i]]
        if prediction == "sample":
            return clean
        return (x - level**0.5 * clean) / (1 - level) ** 0.5

    found = Ddpm(schedule)(predict, torch.zeros(1, 10, 2, 2), 10)
    torch.testing.assert_close(found, clean, atol=1e-4, rtol=0)


def test_the_clean_sample_is_clipped():
    free, clipped = NoiseSchedule(100, 1, clip=None), NoiseSchedule(100, 1, clip=0.5)
    x, output = torch.ones(1, 1, 1), torch.full((1, 1, 1), -3.0)
    level, _ = free.levels(0)
    assert float(free.clean(x, output, level)) > 0.5
    assert float(clipped.clean(x, output, level)) == 0.5


def test_timesteps_fall_to_zero_in_whole_strides():
    assert NoiseSchedule(100, 6).timesteps == (80, 64, 48, 32, 16, 0)


def test_guidance_and_another_number_of_steps_are_refused():
    schedule = NoiseSchedule(100, 5)
    noise = torch.zeros(1, 2, 2)
    with pytest.raises(PolicyError, match=r"asked for 4 steps.*made for 5"):
        Ddim(schedule)(lambda x, i: x, noise, 4)

    class Guide:
        def start(self, x):
            return x

        def velocity(self, x, v, tau, steps):
            return v

    with pytest.raises(PolicyError, match="guidance needs a flow policy"):
        Ddim(schedule)(lambda x, i: x, noise, 5, Guide())
