# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ALOHA's training makes is what the engine runs: demonstrations, statistics, model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phyai_ros.engine.models.lerobot_images import planes, resize
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation
from phyai_ros.sim.aloha.world import World
from tools.train.aloha import data as aloha_data
from tools.train.aloha import demonstrations, export
from tools.train.aloha.policy import Trainee
from tools.train.aloha.train import random_batch, settle


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few demonstrations by the real program, in one process."""
    directory = tmp_path_factory.mktemp("demonstrations")
    demonstrations.BLOCK, whole = 8, demonstrations.BLOCK
    try:
        for name, (shape, dtype) in demonstrations.layout(16).items():
            np.lib.format.open_memmap(directory / f"{name}.npy", "w+", dtype, shape).flush()
        arrays = {
            name: np.load(directory / f"{name}.npy", mmap_mode="r+")
            for name in demonstrations.layout(0)
        }
        world = World(width=2 * demonstrations.SIZE[1], height=2 * demonstrations.SIZE[0])
        for number in (0, 1):
            demonstrations.fill(world, 5, number, arrays)
        world.close()
    finally:
        demonstrations.BLOCK = whole
    (directory / demonstrations.DONE).write_text('{"samples": 16}')
    return directory


@pytest.fixture(scope="module")
def dataset(made: Path) -> aloha_data.Dataset:
    return aloha_data.Dataset(made, torch.device("cpu"))


def test_a_sample_is_the_state_its_pictures_and_the_experts_chunk(made: Path) -> None:
    state, chunk = (np.load(made / f"{name}.npy") for name in ("state", "chunk"))
    assert np.isfinite(chunk).all()
    # Row 0 is reached 20 ms later: nobody is faster than the robot may be.
    assert np.abs(chunk[:, 0] - state)[:, [*range(6), *range(7, 13)]].max() < np.pi * 0.02 + 1e-6
    images = np.load(made / "images.npy")
    assert images.shape[1:] == (3, 3, 120, 160)
    assert images.reshape(16, -1).std(1).min() > 10
    assert len({image.tobytes() for image in images}) == 16


def test_normalised_columns_are_of_one_size_and_come_back(dataset: aloha_data.Dataset) -> None:
    mean, std = dataset.statistics["action"]
    assert float(std.min()) >= aloha_data.FLOOR - 1e-6
    back = dataset.chunk * std + mean
    back[..., aloha_data.RELATIVE] += dataset.raw_state[:, None, aloha_data.RELATIVE]
    torch.testing.assert_close(back, dataset.raw_chunk, atol=1e-5, rtol=0)


def test_engine_and_training_agree(dataset: aloha_data.Dataset, tmp_path: Path) -> None:
    """Pictures, state, model and action conversion: the training side against the engine."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Trainee()
    with torch.no_grad():
        model(random_batch(2, torch.device("cpu")))
    settle(model, dataset, 1, 4)
    with torch.no_grad():
        for name, parameter in model.policy.named_parameters():
            parameter.copy_(export._stored(name, parameter).float())
    export.write(model, dataset, tmp_path / "act")
    policy = load_policy(tmp_path / "act")
    world = World(9)
    pictures = {key: world.render(key.rsplit(".", 1)[-1]) for key in policy.spec.cameras}
    state = aloha_data.spoken(world.state().joints)
    found = policy.infer(Observation(pictures, state, "", 0.0)).actions
    world.close()

    moments = dataset.statistics
    mean, std = moments["observation.state"]
    sample = (torch.from_numpy(state).float() - mean) / std
    mean, std = moments["action"]

    def trained(pictures: dict[str, np.ndarray]) -> np.ndarray:
        pixels = [planes(torch.from_numpy(pictures[key])[None]) for key in policy.spec.cameras]
        small = torch.stack([resize(p, *demonstrations.SIZE)[0] for p in pixels])
        with torch.no_grad():
            chunk, _ = model.chunk(small[None], sample[None])
        rows = (chunk[0] * std + mean).double().numpy()
        rows[:, aloha_data.RELATIVE] += state[list(aloha_data.RELATIVE)]
        return rows

    wanted = trained(pictures)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    dark = {key: np.zeros_like(picture) for key, picture in pictures.items()}
    assert np.abs(trained(dark) - wanted).max() > 1e-3
