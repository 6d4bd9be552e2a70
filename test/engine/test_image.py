# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Resizing, pixel for pixel as the references' libraries do it."""

import cv2
import numpy as np
import pytest
import torch
from golden import GOLDEN, cases, needs_golden
from PIL import Image

from phyai_ros.engine import image
from phyai_ros.engine.models.gr00t_n17.backbone import COSMOS_REASON2_2B
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.images import ImageRules, patches_of
from phyai_ros.engine.types import PolicyError

SIZES = ((480, 640), (36, 64), (97, 131), (240, 320))
TARGETS = ((32, 57), (128, 171), (256, 340), (224, 224), (120, 160), (60, 80))


def picture(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def planes(raw):
    return torch.from_numpy(raw).permute(2, 0, 1)


def back(planes):
    return planes.permute(1, 2, 0).numpy()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_area_is_opencv(size, target):
    raw = picture(size)
    expected = cv2.resize(raw, target[::-1], interpolation=cv2.INTER_AREA)
    found = back(image.cv2_area(planes(raw), *target))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_bilinear_is_pillow(size, target):
    raw = picture(size, 1)
    expected = np.asarray(Image.fromarray(raw).resize(target[::-1], Image.Resampling.BILINEAR))
    found = back(image.pil_bilinear(planes(raw), *target))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_fixed_point_is_torch(size, target, mode):
    """What other devices compute, here against torch's integer kernel of the CPU."""
    raw = planes(picture(size, 2))[None]
    found = image._fixed(raw, *target, lambda *s: image.torch_taps(*s, mode, raw.device))
    torch.testing.assert_close(found, image.torchvision_resize(raw, *target, mode), rtol=0, atol=0)


SAMPLES = {
    "": lambda x: x,
    "stride4": lambda x: x[::4, ::4],
    "top_left_40": lambda x: x[:40, :40],
    "bottom_right_40": lambda x: x[-40:, -40:],
    "centre_48": lambda x: x[
        x.shape[0] // 2 - 24 : x.shape[0] // 2 + 24, x.shape[1] // 2 - 24 : x.shape[1] // 2 + 24
    ],
}
_END = ".image_uint8"
_INFO = cases("preprocess/groot_n17") if GOLDEN.is_dir() else {"stats": {}}


@needs_golden
@pytest.mark.parametrize("name", [k for k in _INFO["stats"] if k.endswith(_END)])
def test_groot_pixels(name):
    """All of GR00T's evaluation transforms, to the bit: the image, its grid and its patches."""
    arrays = np.load(GOLDEN / "preprocess/groot_n17/cases.npz")
    configuration, which = name.removesuffix(_END).rsplit(".", 1)
    raw = np.load(GOLDEN / "preprocess/images/raw.npz")[which]
    rules = ImageRules.lerobot(_INFO["configurations"][configuration], None, "fixture")
    vision = GrootConfig.parse({}, "published").vision
    found = back(rules.transform(planes(raw)))
    compared = 0
    for key in arrays.files:
        if key.startswith(name):
            sample = SAMPLES[key[len(name) + 1 :]](found)
            np.testing.assert_array_equal(sample, arrays[key], err_msg=key)
            compared += 1
    assert compared
    assert found.sum(dtype=np.int64) == _INFO["stats"][name]["sum"]
    patches, grid = patches_of(torch.from_numpy(raw)[None], rules, vision)
    stem = f"{configuration}.{which}"
    assert [1, *grid] == arrays[f"{stem}.image_grid_thw"][0].tolist()
    pixels = patches[0].numpy()
    first_slot = pixels[::16].reshape(-1, 3, 2, 256)[:, :, 0]
    np.testing.assert_array_equal(pixels[:8], arrays[f"{stem}.pixel_values.first_8_rows"])
    np.testing.assert_array_equal(pixels[-4:], arrays[f"{stem}.pixel_values.last_4_rows"])
    np.testing.assert_array_equal(
        first_slot, arrays[f"{stem}.pixel_values.every_16th_row_first_slot"]
    )


def test_published_vision_dimensions():
    vision = GrootConfig.parse({}, "published").vision
    assert vision.patch_values == 1536
    assert vision.hidden == COSMOS_REASON2_2B["vision_config"]["hidden_size"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((256, 256), (256, 256)),
        ((20, 20), (256, 256)),
        ((300, 41), (704, 96)),
        ((8192, 4096), (5792, 2880)),
    ],
)
def test_smart_size_stays_within_the_pixel_limits(size, expected):
    rules = ImageRules.lerobot({}, None, "published")
    found = rules.smart_size(*size, 32)
    assert found == expected
    assert 65536 <= found[0] * found[1] <= 16777216


def torchvision(raw, size, mode="bilinear"):
    """torchvision's resize of bytes is this kernel of torch's."""
    given = torch.from_numpy(raw).permute(2, 0, 1)[None]
    return torch.nn.functional.interpolate(given, size, mode=mode, antialias=True)[0]


def test_isaac_scales_to_a_size_bilinearly_and_cuts_a_window_of_pixels():
    """transforms.Resize(target), CenterCrop(crop), Resize(target): no part of it is lerobot's."""
    raw = np.random.default_rng(0).integers(0, 256, (61, 83, 3), dtype=np.uint8)
    kwargs = {"image_target_size": [40, 48], "image_crop_size": [33, 41], "crop_fraction": 0.5}
    rules = ImageRules.isaac(kwargs, None, "test")
    whole = torchvision(raw, (40, 48))
    top, left = round((40 - 33) / 2), round((48 - 41) / 2)
    window = whole[:, top : top + 33, left : left + 41].permute(1, 2, 0).numpy()
    assert torch.equal(rules.transform(planes(raw)), torchvision(window, (40, 48)))
    other = ImageRules.isaac({**kwargs, "image_interpolation": "bicubic"}, None, "test")
    assert not torch.equal(other.transform(planes(raw)), rules.transform(planes(raw)))


def test_isaacs_aspect_keeping_recipe_needs_no_target():
    """Its own defaults then: a shortest edge of 256, 95 % of each side."""
    raw = np.random.default_rng(0).integers(0, 256, (300, 420, 3), dtype=np.uint8)
    rules = ImageRules.isaac({"use_albumentations": True}, None, "test")
    told = {"image_target_size": [256, 256], "shortest_image_edge": 256, "crop_fraction": 0.95}
    same = ImageRules.lerobot({"use_albumentations": True, **told}, None, "test")
    assert torch.equal(rules.transform(planes(raw)), same.transform(planes(raw)))


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"image_target_size": [40, 40]}, "image_crop_size: expected .height, width., found None"),
        ({"use_albumentations": True, "crop_fraction": None}, "image_target_size: expected"),
        ({"use_albumentations": "false"}, "use_albumentations: expected true or false"),
        (
            {"image_interpolation": "area"},
            "image_interpolation is 'area'; known: bilinear, bicubic",
        ),
    ],
)
def test_image_rules_that_do_not_tell_a_size_are_refused(kwargs, says):
    with pytest.raises(PolicyError, match=f"test: {says}"):
        ImageRules.isaac(kwargs, None, "test")
