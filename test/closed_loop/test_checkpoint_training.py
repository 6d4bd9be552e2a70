# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What was trained is what the engine runs: the training modules and the engine agree."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import FeatureSpec, Guidance
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.sampling import sample_state
from phyai_ros.sim.world import World
from tools.train import export_gr00t, export_pi05, families, follow
from tools.train.batch import Batch
from tools.train.images import prepare
from tools.train.rollout import observe
from tools.train.statistics import Range

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "phyai_ros" / "checkpoints"
NAMES = ("gr00t", "pi05")
RTC = "pi05_ur10e_rtc_small"
SAMPLES = 4


def trained(name: str) -> tuple[families.Family, torch.nn.Module]:
    """The training module with the published weights."""
    torch.set_num_threads(1)
    family = families.make(name)
    model = family.build().eval()
    directory = CHECKPOINTS / f"{name}_ur10e_small"
    if name == "gr00t":
        weights = export_gr00t.read(directory)
        missing, unexpected = model.load_state_dict(weights, strict=False)
        assert not unexpected
        assert all(key.startswith("probe") for key in missing)
        return family, model
    export_pi05.read(model, directory)
    return family, model


@pytest.mark.parametrize("name", NAMES)
def test_training_and_engine_agree(name: str) -> None:
    """Preprocessing, prompt, model, solver and action conversion, from pictures to joints: the
    training side against the engine on the same states and noise."""
    family, model = trained(name)
    policy = load_policy(CHECKPOINTS / f"{name}_ur10e_small")
    family.state = _range(policy.spec.state, 1)
    family.chunk = _range(policy.spec.action, policy.spec.horizon)
    world, rng = World(0), np.random.default_rng(5)
    generator = torch.Generator().manual_seed(5)
    for _ in range(SAMPLES):
        world.set_state(sample_state(rng))
        observation = observe(world, policy.spec.cameras)
        noise = torch.randn(1, policy.spec.horizon, 7, generator=generator)
        raw = torch.from_numpy(observation.state).float()[None]
        text = torch.tensor([family.instructions.index(observation.instruction)])
        state = family.normalise_state(raw)
        pictures = np.stack([prepare(name, picture) for picture in observation.images.values()])
        ids, valid = family.prompt(text, state)
        nothing = torch.empty(0)
        batch = Batch(
            torch.from_numpy(pictures)[None], ids, valid, state, nothing, nothing, nothing
        )
        ours = family.restore_chunk(model.sample(batch, noise), raw)[0].numpy()
        theirs = policy.infer(observation, noise=noise[0].numpy()).actions
        # pi0.5's pictures stay float in the engine and are kept as bytes for training.
        np.testing.assert_allclose(ours, theirs, atol=1e-5 if name == "gr00t" else 5e-3)
    world.close()


def test_decided_rows_are_the_same_to_training_and_engine() -> None:
    """As above for the checkpoint that goes on from decided rows: none of them, and five."""
    torch.set_num_threads(1)
    family = families.make("pi05_rtc")
    model = family.build().eval()
    families.load_state(model, CHECKPOINTS / RTC)
    policy = load_policy(CHECKPOINTS / RTC)
    assert policy.spec.trained_delay == follow.MAX_DELAY
    family.state = _range(policy.spec.state, 1)
    family.chunk = _range(policy.spec.action, policy.spec.horizon)
    world, rng = World(0, conveyor=Conveyor(0.04)), np.random.default_rng(6)
    generator = torch.Generator().manual_seed(6)
    for _ in range(2):
        moment = follow.draw(rng, Conveyor(0.04).x)
        world.set_state(moment.state)
        observation = observe(world, policy.spec.cameras)
        raw = torch.from_numpy(observation.state).float()[None]
        rows = follow.chunks(moment, observation.state, policy.spec.horizon)
        chunk = torch.from_numpy(rows).float()[None]
        noise = torch.randn(1, policy.spec.horizon, 7, generator=generator)
        text = torch.tensor([family.instructions.index(observation.instruction)])
        prompt = family.prompt(text, family.normalise_state(raw))
        pictures = np.stack([prepare("pi05", p) for p in observation.images.values()])
        batch = Batch(
            torch.from_numpy(pictures)[None],
            *prompt,
            family.normalise_state(raw),
            family.normalise_chunk(chunk, raw),
            torch.empty(0),
            torch.empty(0),
        )
        every = noise[:, None].expand(-1, chunk.shape[1], -1, -1)
        ours = family.restore_chunk(model.sample(batch, every), raw)[0].numpy()
        for d in (0, 5):
            wish = Guidance(rows[d], d, "rtc_trained", 8) if d else None
            theirs = policy.infer(observation, noise[0].numpy(), wish).actions
            np.testing.assert_allclose(ours[d], theirs, atol=5e-3)
            np.testing.assert_allclose(theirs[:d], rows[d, :d], atol=1e-4)
    world.close()


@pytest.mark.parametrize("name", NAMES)
def test_garbled_prompts_keep_colour_and_state(name: str) -> None:
    family = families.make(name)
    text = torch.arange(len(family.instructions))
    state = torch.zeros(len(text), 7)
    ids, _ = family.prompt(text, state)
    words = torch.from_numpy(family.arrays["words"])
    torch.manual_seed(0)
    changed = torch.zeros(())
    for _ in range(20):
        garbled = family.garble(ids, text)
        assert torch.equal(garbled[~words[text]], ids[~words[text]])
        changed += (garbled != ids).sum()
    assert changed > 0


def _range(features: tuple[FeatureSpec, ...], rows: int) -> Range:
    """The extremes that a checkpoint's statistics hold, [rows, columns]."""

    def columns(feature: FeatureSpec, of_quantiles: str, of_extremes: str) -> np.ndarray:
        quantiles = feature.normalisation.lower() == "quantiles"
        value = feature.statistics[of_quantiles if quantiles else of_extremes]
        return np.broadcast_to(value, (rows, feature.size)).astype(np.float32)

    low = np.concatenate([columns(f, "q01", "min") for f in features], axis=-1)
    high = np.concatenate([columns(f, "q99", "max") for f in features], axis=-1)
    return Range(torch.from_numpy(low), torch.from_numpy(high))
