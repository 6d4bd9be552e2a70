# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Images on their way into the aligner: of another size or encoding than expected, or fine."""

import numpy as np
import pytest

from phyai_ros import robots
from phyai_ros.control.align import CameraStream, ObservationAligner
from phyai_ros.engine.frames import Frames, frame_of
from phyai_ros.nodes.convert import ImageSample, MessageError
from phyai_ros.nodes.frame_source import CameraTopic, FrameSource, deliver_image

JOINTS = robots.load("ur10e").joint_names


def deliver(camera, shape, encoding="rgb8"):
    source = FrameSource(ObservationAligner([CameraStream("scene")], JOINTS), lambda: 10.0)
    sample = ImageSample(9.99, 9_990_000_000, np.zeros(shape, np.uint8), encoding)
    deliver_image(source, camera, sample)
    return source


@pytest.mark.parametrize("shape", [(480, 640, 3), (240, 321, 3), (320, 240, 3), (1, 1, 3)])
def test_a_camera_of_another_size_is_refused_with_both_sizes(shape):
    camera = CameraTopic("scene", "/scene", size=(240, 320))
    says = rf"image is {shape[1]}x{shape[0]}, .* camera 'scene' is 320x240"
    with pytest.raises(MessageError, match=says):
        deliver(camera, shape)


def test_a_camera_of_another_encoding_than_the_robot_says_is_refused_with_both():
    camera = CameraTopic("scene", "/scene", encoding="bgr8")
    with pytest.raises(MessageError, match=r"image is rgb8, .* camera 'scene' sends bgr8"):
        deliver(camera, (4, 4, 3))


@pytest.mark.parametrize("size", [None, (240, 320)])
def test_an_image_as_expected_arrives(size):
    source = deliver(CameraTopic("scene", "/scene", size=size, encoding="rgb8"), (240, 320, 3))
    assert source.aligner.ages(10.0)["scene"] == pytest.approx(0.01)


@pytest.mark.parametrize("colours", [slice(None), slice(None, None, -1)], ids=["rgb8", "bgr8"])
def test_an_image_is_copied_once_into_the_memory_that_is_there_for_it(colours):
    """Frames come back as the aligner lets go of them: one more than it keeps is enough."""
    frames, camera = Frames(pinned=False), CameraTopic("scene", "/scene")
    stream = CameraStream("scene")
    frames.reserve(24, 32, stream.depth + 1)
    source = FrameSource(ObservationAligner([stream], JOINTS), lambda: 10.0, frames.put)
    kept = source.aligner._cameras["scene"].samples
    rng = np.random.default_rng()
    for i in range(50):
        message = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        stamp = 9.0 + 0.01 * i
        deliver_image(source, camera, ImageSample(stamp, 0, message[..., colours], "rgb8"))
        assert all(frame_of(image) is not None for image in kept)
        np.testing.assert_array_equal(kept[-1], message[..., colours])
        message[:] = 0  # its sender may use it again
        assert kept[-1].any()
    source.clear()
    assert all(len(free) == stream.depth + 1 for free in frames._free.values())
