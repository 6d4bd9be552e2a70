# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A request's arrays in one buffer, and the letterbox against Pillow, torch and float64."""

import numpy as np
import pytest
import torch
from PIL import Image

from phyai_ros.engine.kernels import _triton, letterbox
from phyai_ros.engine.staging import Grouped, Stack, Staging, upload
from phyai_ros.engine.structure import flatten

CPU = torch.device("cpu")
SIZES = ((480, 640), (64, 36), (224, 224), (97, 131), (20, 33))


def pictures(size, count=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *size, 3), dtype=np.uint8)


def test_arrays_lie_side_by_side_and_keep_their_values():
    images = pictures((4, 5), 3)
    given = (Stack(list(images[:, ::-1])), np.arange(7), torch.ones(2, 3), np.array([True, False]))
    leaves, structure = flatten(given)
    room = Staging(leaves, CPU)
    room.write(leaves)
    room.upload()
    for found, expected in zip(room.device, (images[:, ::-1].copy(), *given[1:]), strict=True):
        torch.testing.assert_close(found, torch.as_tensor(expected))
    assert flatten((Stack(list(images)), *given[1:]))[1] == structure
    assert flatten((Stack(list(images[:2])), *given[1:]))[1] != structure


def test_upload_takes_arrays_that_torch_cannot_hold():
    frozen = np.arange(6).reshape(2, 3)
    frozen.flags.writeable = False
    found = upload({"a": frozen, "b": frozen[:, ::-1]}, CPU)
    assert found["a"].tolist() == frozen.tolist()
    assert found["b"].tolist() == frozen[:, ::-1].tolist()


def test_images_are_grouped_by_size():
    small, large = pictures((4, 5), 2), pictures((6, 5), 1)
    found = Grouped.of([((0, 0), small[0]), ((0, 1), large[0]), ((1, 0), small[1])])
    assert [stack.shape for stack in found.stacks] == [(2, 4, 5, 3), (1, 6, 5, 3)]
    assert found.places == (((0, 0), (1, 0)), ((0, 1),))
    assert found.heights == (4, 6)


def test_rows_that_nobody_looks_at_stay_at_home():
    (image,) = pictures((480, 64), 1)
    assert letterbox.rows_seen(240, 320, 224, 224) is None
    given = Grouped.of([((0, 0), image)], lambda h, w: letterbox.rows_seen(h, w, 60, 60))
    (stack,) = given.stacks
    assert stack.shape[1] < 480 == given.heights[0]
    (found,) = upload((stack,), CPU)
    expected = letterbox.reference(torch.from_numpy(image)[None], 60, 60)
    some = letterbox.reference(found, 60, 60, height=480)
    torch.testing.assert_close(some, expected, rtol=0, atol=0)
    assert flatten(given)[1] != flatten(Grouped.of([((0, 0), image[: stack.shape[1]])]))[1]


@pytest.mark.parametrize("size", SIZES)
def test_pillow_letterbox_is_pillow(size):
    (raw,) = pictures(size, 1)
    tall, wide = letterbox.fit(*size, 224, 224)
    small = Image.fromarray(raw).resize((wide, tall), Image.Resampling.BILINEAR)
    canvas = Image.new("RGB", (224, 224), 0)
    canvas.paste(small, ((224 - wide) // 2, (224 - tall) // 2))
    found = letterbox.reference(torch.from_numpy(raw)[None], 224, 224, pillow=True)[0]
    expected = np.asarray(canvas).astype(np.float32) / 255 * 2 - 1
    np.testing.assert_array_equal(found.permute(1, 2, 0).numpy(), expected)


def exact(pixels, rows, columns, centred):
    """LeRobot's rule in float64, written out."""
    height, width = pixels.shape[1:3]
    size = letterbox.fit(height, width, rows, columns)
    if (height, width) == (rows, columns):
        size = (height, width)
    x = pixels.astype(np.float64) / 255
    for axis, (source, target) in ((1, (height, size[0])), (2, (width, size[1]))):
        at = np.maximum((np.arange(target) + 0.5) * (source / target) - 0.5, 0)
        low = np.minimum(at.astype(int), source - 1)
        high = np.minimum(low + 1, source - 1)
        shape = [1] * 4
        shape[axis] = -1
        part = (at - low).reshape(shape)
        x = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    top, left = letterbox.corner(size, rows, columns, centred)
    out = np.full((len(x), rows, columns, 3), -1.0)
    out[:, top : top + size[0], left : left + size[1]] = x * 2 - 1
    return torch.from_numpy(out).permute(0, 3, 1, 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("centred", [True, False])
def test_letterbox_is_its_formula(size, centred):
    raw = pictures(size)
    found = letterbox.reference(torch.from_numpy(raw), 224, 200, centred=centred)
    torch.testing.assert_close(found.double(), exact(raw, 224, 200, centred), rtol=0, atol=2e-4)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.cuda
@pytest.mark.skipif(not _triton.usable(torch.device(DEVICE)), reason="needs a GPU or interpreter")
@pytest.mark.parametrize("size", SIZES if DEVICE == "cuda" else ((20, 33), (66, 18)))
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("dependent", [True, False] if DEVICE == "cuda" else [False])
def test_kernel(size, centred, dependent):
    raw = pictures(size, 3)
    rows, columns = (224, 200) if DEVICE == "cuda" else (22, 20)
    pixels = torch.from_numpy(raw).to(DEVICE)
    where = {"centred": centred, "dependent": dependent}
    found = letterbox.fused(pixels, rows, columns, **where).cpu().double()
    torch.testing.assert_close(found, exact(raw, rows, columns, centred), rtol=0, atol=2e-4)
    seen = letterbox.rows_seen(*size, rows, columns)
    if seen is not None:
        some = pixels[:, torch.from_numpy(seen).to(DEVICE)].contiguous()
        again = letterbox.fused(some, rows, columns, height=size[0], **where).cpu().double()
        torch.testing.assert_close(again, found, rtol=0, atol=0)
    found = letterbox.fused(pixels, rows, columns, pillow=True, **where).cpu()
    expected = letterbox.reference(
        torch.from_numpy(raw), rows, columns, pillow=True, centred=centred
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
