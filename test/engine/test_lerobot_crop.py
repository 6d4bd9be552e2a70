# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot's crop-and-resize step: what it does to pixels, and what of it is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import GOLDEN, needs_golden

from phyai_ros.engine.models.lerobot import Feature, Layout, Pipeline, Step
from phyai_ros.engine.models.lerobot_crop import CropResize
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError
from phyai_ros.tools import check_inputs

CAMERA = "observation.images.top"
NORMALIZER = Step("normalizer_processor", {}, "")


def layout(config, *, last=False):
    step = Step("image_crop_resize_processor", config, "")
    steps = (NORMALIZER, step) if last else (step, NORMALIZER)
    camera = Feature(CAMERA, "VISUAL", (3, 4, 6))
    empty = Pipeline(Path("policy_postprocessor.json"), ())
    return Layout(
        Path(), {}, (camera,), (), Pipeline(Path("policy_preprocessor.json"), steps), empty
    )


def test_no_step_no_fit():
    empty = Pipeline(Path("policy_preprocessor.json"), (NORMALIZER,))
    assert CropResize.of(Layout(Path(), {}, (), (), empty, empty)) is None


def test_a_window_is_cut_before_the_picture_is_scaled():
    images = torch.rand(2, 3, 40, 60, generator=torch.Generator().manual_seed(0))
    config = {"crop_params_dict": {CAMERA: [8, 10, 16, 24]}, "resize_size": [4, 6]}
    fit = CropResize.of(layout(config))
    found = fit(CAMERA, images)
    window = images[:, :, 8:24, 10:34]
    expected = torch.nn.functional.interpolate(window, (4, 6), mode="bilinear", antialias=True)
    torch.testing.assert_close(found, expected.clamp(0, 1))
    other = fit("observation.images.else", images)
    assert other.shape == (2, 3, 4, 6)
    assert not torch.allclose(other, found)


def test_whole_factors_are_nearly_the_mean_of_the_pixels():
    rows = torch.arange(8.0)[:, None].expand(8, 8) / 8
    fit = CropResize.of(layout({"resize_size": [4, 4]}))
    small = fit(CAMERA, rows.expand(1, 3, 8, 8))
    # A linear ramp stays one away from the borders, sampled at the middle of two rows.
    np.testing.assert_allclose(small[0, 0, 1:3, 0], [2.5 / 8, 4.5 / 8], atol=1e-6)


def test_without_a_size_it_only_cuts():
    images = torch.rand(1, 3, 10, 10)
    fit = CropResize.of(layout({"crop_params_dict": {CAMERA: [1, 2, 3, 4]}, "resize_size": None}))
    torch.testing.assert_close(fit(CAMERA, images), images[:, :, 1:4, 2:6])


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"resize_size": [0, 4]}, "resize_size: expected"),
        ({"resize_size": 128}, "resize_size: expected"),
        ({"resize_size": [4.0, 4]}, "resize_size: expected"),
        ({"crop_params_dict": {"cam": [0, 0, 1, 1]}}, "expected cameras of.*top.*found 'cam'"),
        ({"crop_params_dict": {CAMERA: [0, 0, 1]}}, "top, left, height, width"),
        ({"crop_params_dict": {CAMERA: [-1, 0, 1, 1]}}, "top, left, height, width"),
        ({"crop_params_dict": {CAMERA: [0, 0, True, 1]}}, "top, left, height, width"),
    ],
)
def test_what_makes_no_sense_is_refused_by_key(config, says):
    with pytest.raises(PolicyError, match=says):
        CropResize.of(layout(config))


def test_after_the_normaliser_it_is_refused():
    with pytest.raises(PolicyError, match="before normalizer_processor"):
        CropResize.of(layout({"resize_size": [4, 6]}, last=True))


def test_a_picture_that_the_window_does_not_fit_in_is_refused():
    fit = CropResize.of(layout({"crop_params_dict": {CAMERA: [8, 0, 16, 24]}}))
    fit.check(CAMERA, [np.zeros((24, 24, 3), np.uint8)])
    with pytest.raises(PolicyError, match="at least 24 rows and 24 columns, found"):
        fit.check(CAMERA, [np.zeros((23, 24, 3), np.uint8)])
    with pytest.raises(PolicyError, match="one size"):
        fit.check(CAMERA, [np.zeros((24, 24, 3), np.uint8), np.zeros((25, 24, 3), np.uint8)])


@needs_golden
def test_made_up_images_hold_the_windows(tmp_path):
    """A robot that does not say how large its images are is warmed up, and a checkpoint checked,
    with images of our own."""
    root = shutil.copytree(GOLDEN / "act", tmp_path / "act")
    file = root / "policy_preprocessor.json"
    content = json.loads(file.read_text())
    camera = "observation.images.top"
    config = {"crop_params_dict": {camera: [300, 400, 64, 96]}, "resize_size": [64, 96]}
    content["steps"].insert(0, {"registry_name": CropResize.STEP, "config": config})
    file.write_text(json.dumps(content))
    policy = load_policy(root)
    policy.warm_up()
    (made,) = check_inputs.observations(policy.spec, 1)
    assert made.images[camera].shape == (364, 496, 3)
    policy.infer(made)
