# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ROS images -> RGB pixels.

Eight-bit encodings become numpy views of the message's own bytes, whatever its ``step``; colour
order and alpha are strides, not copies. cv_bridge is not used: it floors a ``step`` that is no
multiple of the pixel size (rows shear), ignores ``CompressedImage.format`` and needs NumPy 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from phyai_ros.nodes.image_header import jpeg_size, png_size
from phyai_ros.robots.parts import ENCODINGS, MOST_PIXELS

_CHANNELS = dict(zip(ENCODINGS, (3, 3, 4, 4, 1), strict=True))
# 8UC3 and its kin are left out on purpose: they do not say the order of their colours.
SUPPORTED = tuple(_CHANNELS)
COMPRESSED = ("jpeg", "png")
LARGEST = MOST_PIXELS
"""Pixels of a compressed image: a few bytes can say any number."""


class ImageError(ValueError):
    """An image this package does not use; the text says which encoding or size, and what it can."""


@dataclass(frozen=True)
class PixelLayout:
    """What ``sensor_msgs/Image`` says about its bytes."""

    height: int
    width: int
    encoding: str
    step: int


def rgb_view(layout: PixelLayout, data: Any) -> np.ndarray:
    """Pixels of an eight-bit image as a read-only uint8 [height, width, 3] RGB view of ``data``.

    layout.step: bytes from one row to the next, at least width * channels.
    Raises ImageError for other encodings and for sizes that do not fit together.
    """
    channels = _CHANNELS.get(layout.encoding)
    if channels is None:
        raise ImageError(
            f"encoding '{layout.encoding}' is not supported; supported: {', '.join(SUPPORTED)} "
            f"and compressed {', '.join(COMPRESSED)}. Convert depth, 16-bit, Bayer or YUV images "
            "before this node (image_proc, or the camera driver's own parameter)"
        )
    flat = np.frombuffer(data, np.uint8)
    height, width, step = layout.height, layout.width, layout.step
    if height == 0 or width == 0:
        raise ImageError(f"image of {width}x{height} pixels is empty")
    if step < width * channels:
        raise ImageError(
            f"step {step} is less than a row: {width} pixels of {layout.encoding} are "
            f"{width * channels} bytes"
        )
    if flat.size != step * height:
        raise ImageError(
            f"data holds {flat.size} bytes, step {step} times height {height} is {step * height}"
        )
    pixels = np.ndarray((height, width, channels), np.uint8, flat, strides=(step, channels, 1))
    pixels.flags.writeable = False
    if layout.encoding == "mono8":
        return np.broadcast_to(pixels, (height, width, 3))
    if layout.encoding in ("bgr8", "bgra8"):
        return pixels[:, :, 2::-1]
    return pixels[:, :, :3]


def decode_compressed(format_: str, data: Any) -> np.ndarray:
    """JPEG or PNG bytes -> uint8 [height, width, 3] RGB.

    format_: ``CompressedImage.format``, either ``jpeg`` / ``png`` or image_transport's
        ``<encoding>; jpeg compressed <encoding>``. The first token is the pixels' encoding before
        compression and the last one the order the codec was given; JPEG and PNG files say their own
        order, so both decode to true colours unless the codec was given rgb8 as it stands, which
        the last token tells.
    Raises ImageError for other codecs, depth and 16-bit images, and bytes that do not decode.
    """
    source, codec, stored = _parse_format(format_)
    if source and ("16" in source or "32" in source):
        raise ImageError(
            f"compressed image of encoding '{source}' (format '{format_}') is not eight-bit; "
            f"supported: {', '.join(SUPPORTED)}"
        )
    encoded = np.frombuffer(data, np.uint8)
    magic = _codec_of(encoded)
    if magic is not None and magic != codec:
        raise ImageError(f"format '{format_}' says {codec}, the bytes are {magic}")
    if encoded.size == 0:
        raise ImageError(f"compressed image of format '{format_}' is empty")
    _check_size(encoded.tobytes(), codec, format_)
    pixels = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
    if pixels is None:
        raise ImageError(f"{encoded.size} bytes of format '{format_}' do not decode as {codec}")
    if pixels.dtype != np.uint8:
        raise ImageError(
            f"compressed image of format '{format_}' decodes to {pixels.dtype}, not eight-bit"
        )
    return _to_rgb(pixels, stored)


def _check_size(data: bytes, codec: str, format_: str) -> None:
    size = jpeg_size(data) if codec == "jpeg" else png_size(data)
    if size is None:
        raise ImageError(f"{len(data)} bytes of format '{format_}' do not decode as {codec}")
    width, height = size
    if width * height > LARGEST:
        raise ImageError(
            f"compressed image of {width}x{height} pixels; expected at most {LARGEST} in all"
        )


def _to_rgb(pixels: np.ndarray, stored: str) -> np.ndarray:
    """imdecode gives blue first; ``stored`` rgb8/rgba8 means the writer did not swap before."""
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return np.broadcast_to(pixels.reshape(*pixels.shape[:2], 1), (*pixels.shape[:2], 3))
    swapped = stored in ("rgb8", "rgba8")
    rgb = pixels[:, :, :3] if swapped else pixels[:, :, 2::-1]
    return np.ascontiguousarray(rgb)


def _codec_of(encoded: np.ndarray) -> str | None:
    head = encoded[:8].tobytes()
    if head[:3] == b"\xff\xd8\xff":
        return "jpeg"
    if head == b"\x89PNG\r\n\x1a\n":
        return "png"
    return None


def _parse_format(format_: str) -> tuple[str, str, str]:
    """``CompressedImage.format`` -> encoding before compression, codec, order the codec got."""
    source, _, rest = format_.partition(";")
    if not rest:
        source, rest = "", source
    words = rest.split()
    codec = {"jpg": "jpeg"}.get(words[0].lower(), words[0].lower()) if words else ""
    if codec not in COMPRESSED or "compressedDepth" in words:
        raise ImageError(
            f"compressed format '{format_}' is not supported; supported: {', '.join(COMPRESSED)}"
        )
    stored = words[-1].lower() if len(words) > 1 and words[-1].lower() in _CHANNELS else ""
    return source.strip().lower(), codec, stored
