# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Image rules of SmolVLA, ACT and Diffusion Policy against LeRobot's own pixels."""

import numpy as np
import pytest
import torch
from golden import GOLDEN, cases, needs_golden

from phyai_ros.engine.kernels import letterbox
from phyai_ros.engine.models.lerobot import Normalisation
from phyai_ros.engine.models.lerobot_images import (
    ImageNormaliser,
    centre_crop,
    fit_left_top,
    planes,
    resize,
)

pytestmark = needs_golden
CPU = torch.device("cpu")
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
TRANSFORMS = {
    "smolvla": lambda x: letterbox.reference(x, 512, 512, centred=False),
    "act": lambda x: normalised(x),
    "diffusion_resize_96x128_crop_84x101": lambda x: centre_crop(
        resize(normalised(x), 96, 128), 84, 101
    ),
    "diffusion_crop_85x90": lambda x: centre_crop(normalised(x), 85, 90),
}


def normalised(x: torch.Tensor) -> torch.Tensor:
    statistics = {k: np.array(v, np.float32).reshape(3, 1, 1) for k, v in IMAGENET.items()}
    return ImageNormaliser(Normalisation("MEAN_STD", 1e-8, statistics), CPU)(planes(x))


def sample(image: torch.Tensor, how: str) -> torch.Tensor:
    if not how:
        return image
    if how.startswith("stride"):
        step = int(how.removeprefix("stride"))
        return image[:, ::step, ::step]
    height, width = image.shape[1:]
    top, left = height // 2 - 24, width // 2 - 24
    windows = {
        "top_left_40": image[:, :40, :40],
        "bottom_right_40": image[:, -40:, -40:],
        "centre_48": image[:, top : top + 48, left : left + 48],
    }
    return windows[how]


def arrays() -> list[tuple[str, str]]:
    if not GOLDEN.is_dir():
        return []
    found = []
    for fixture in ("smolvla", "act_diffusion"):
        with np.load(GOLDEN / "preprocess" / fixture / "cases.npz") as file:
            found += [(fixture, key) for key in file.files]
    return found


@pytest.mark.parametrize(("fixture", "key"), arrays())
def test_pixels(fixture, key):
    transform, name, how = (key + ".").split(".", 2)
    with np.load(GOLDEN / "preprocess" / "images" / "raw.npz") as raw:
        image = TRANSFORMS[transform](torch.from_numpy(raw[name])[None])[0]
    with np.load(GOLDEN / "preprocess" / fixture / "cases.npz") as file:
        expected = torch.from_numpy(file[key])
    torch.testing.assert_close(sample(image, how.rstrip(".")), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fixture", ["smolvla", "act_diffusion"])
def test_whole_images_by_their_sums(fixture):
    """What the samples leave out."""
    for key, expected in cases(f"preprocess/{fixture}")["stats"].items():
        transform, name = key.split(".")
        with np.load(GOLDEN / "preprocess" / "images" / "raw.npz") as raw:
            image = TRANSFORMS[transform](torch.from_numpy(raw[name])[None])[0].double()
        assert list(image.shape) == expected["shape"]
        assert image.sum().item() == pytest.approx(expected["sum"], rel=1e-6, abs=0.05)
        assert image.abs().sum().item() == pytest.approx(expected["abs_sum"], rel=1e-6)


@pytest.mark.parametrize("mode", ["IDENTITY", "MIN_MAX", "QUANTILES"])
def test_other_modes(mode):
    low, high = np.array([0.0, 0.2, 0.5], np.float32), np.array([1.0, 0.6, 0.5], np.float32)
    statistics = {"min": low, "max": high, "q01": low, "q99": high}
    x = torch.full((3, 1, 1), 0.5)
    found = ImageNormaliser(Normalisation(mode, 1e-8, statistics), CPU)(x).flatten().tolist()
    # A channel of no range divides by eps instead.
    expected = [0.5] * 3 if mode == "IDENTITY" else [0.0, 0.5, -1.0]
    assert found == pytest.approx(expected, abs=1e-6)


def test_normalised_smolvla_images_are_scaled_as_the_others():
    """A camera with statistics is normalised in front of the scaling; by the identity, both ways
    are one."""
    pixels = torch.randint(0, 256, (2, 30, 50, 3), dtype=torch.uint8)
    found = fit_left_top(planes(pixels), 64, 64) * 2 - 1
    torch.testing.assert_close(
        found, letterbox.reference(pixels, 64, 64, centred=False), rtol=0, atol=1e-6
    )
