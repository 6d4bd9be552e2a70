# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Pixels of every supported encoding, step and codec; the unsupported ones say so."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.nodes.images import (
    SUPPORTED,
    ImageError,
    PixelLayout,
    decode_compressed,
    rgb_view,
)

CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}


def encode(rgb: np.ndarray, encoding: str) -> np.ndarray:
    """RGB [H, W, 3] -> the encoding's own channels, written out channel by channel."""
    alpha = np.full(rgb.shape[:2], 7, np.uint8)
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    planes = {
        "rgb8": (r, g, b),
        "bgr8": (b, g, r),
        "rgba8": (r, g, b, alpha),
        "bgra8": (b, g, r, alpha),
        "mono8": (r,),
    }
    return np.stack(planes[encoding], axis=-1)


def pad_rows(pixels: np.ndarray, padding: int) -> bytes:
    rows = pixels.reshape(pixels.shape[0], -1)
    return np.pad(rows, ((0, 0), (0, padding)), constant_values=255).tobytes()


@given(
    encoding=st.sampled_from(SUPPORTED),
    height=st.integers(1, 7),
    width=st.integers(1, 7),
    padding=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_pixels_survive_any_encoding_size_and_padding(encoding, height, width, padding, seed):
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    if encoding == "mono8":
        rgb[..., 1] = rgb[..., 2] = rgb[..., 0]
    step = width * CHANNELS[encoding] + padding
    data = pad_rows(encode(rgb, encoding), padding)

    view = rgb_view(PixelLayout(height, width, encoding, step), data)

    np.testing.assert_array_equal(view, rgb)
    assert view.dtype == np.uint8
    assert not view.flags.writeable


@pytest.mark.parametrize("encoding", SUPPORTED)
def test_no_copy(encoding):
    data = np.zeros((4, 20), np.uint8)
    view = rgb_view(PixelLayout(4, 4, encoding, 20), data)
    assert np.shares_memory(view, data)


@pytest.mark.parametrize("encoding", ["16UC1", "mono16", "32FC1", "yuv422", "bayer_rggb8", "8UC3"])
def test_other_encodings_are_refused_with_what_is_supported(encoding):
    with pytest.raises(ImageError) as refusal:
        rgb_view(PixelLayout(2, 2, encoding, 8), bytes(16))
    assert f"'{encoding}'" in str(refusal.value)
    assert all(name in str(refusal.value) for name in SUPPORTED)


@pytest.mark.parametrize(
    ("layout", "size", "says"),
    [
        (PixelLayout(2, 1920, "rgb8", 3840), 7680, "step 3840 is less than a row"),
        (PixelLayout(2, 4, "rgb8", 12), 23, "23 bytes"),
        (PixelLayout(2, 4, "rgb8", 12), 25, "25 bytes"),
        (PixelLayout(0, 4, "rgb8", 12), 0, "empty"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(layout, size, says):
    with pytest.raises(ImageError, match=says):
        rgb_view(layout, bytes(size))


def gradient() -> np.ndarray:
    """Three smooth, unequal channels: JPEG keeps them to a few levels, a swap would not."""
    y, x = np.mgrid[0:48, 0:64]
    return np.stack([x * 3, y * 4, 255 - x * 3], axis=-1).astype(np.uint8)


def compress(bgr: np.ndarray, codec: str) -> bytes:
    done, data = cv2.imencode("." + codec, bgr)
    assert done
    return data.tobytes()


@pytest.mark.parametrize("format_", ["jpeg", "jpg", "rgb8; jpeg compressed bgr8"])
def test_jpeg_keeps_colours(format_):
    rgb = gradient()
    pixels = decode_compressed(format_, compress(rgb[..., ::-1], "jpg"))
    assert np.abs(pixels.astype(int) - rgb).max() < 12


@pytest.mark.parametrize("format_", ["png", "bgr8; png compressed bgr8"])
def test_png_is_exact(format_):
    rgb = gradient()
    np.testing.assert_array_equal(decode_compressed(format_, compress(rgb[..., ::-1], "png")), rgb)


def test_format_says_the_writer_did_not_swap():
    """image_transport's 'compressed rgb8': the codec was given RGB as if it were BGR."""
    rgb = gradient()
    pixels = decode_compressed("rgb8; png compressed rgb8", compress(rgb, "png"))
    np.testing.assert_array_equal(pixels, rgb)


def test_alpha_and_grey_png_become_rgb():
    rgb = gradient()
    bgra = np.dstack([rgb[..., ::-1], np.full(rgb.shape[:2], 9, np.uint8)])
    np.testing.assert_array_equal(decode_compressed("png", compress(bgra, "png")), rgb)
    grey = rgb[..., 0].copy()
    pixels = decode_compressed("mono8; png compressed ", compress(grey, "png"))
    np.testing.assert_array_equal(pixels, np.repeat(grey[..., None], 3, axis=2))


@pytest.mark.parametrize(
    ("format_", "data", "says"),
    [
        ("h264", b"\0", "not supported"),
        ("16UC1; compressedDepth png", b"\0", "not supported"),
        ("16UC1; png compressed ", b"\0", "not eight-bit"),
        ("png", compress(np.zeros((4, 4), np.uint16), "png"), "uint16"),
        ("jpeg", compress(np.zeros((4, 4), np.uint8), "png"), "the bytes are png"),
        ("jpeg", b"", "empty"),
        ("jpeg", compress(gradient(), "jpg")[:40], "do not decode"),
        ("", b"\0", "not supported"),
    ],
)
def test_bad_compressed_images_are_refused(format_, data, says):
    with pytest.raises(ImageError, match=says):
        decode_compressed(format_, data)
