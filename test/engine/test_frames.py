# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera images in pooled memory: whose they are for how long, what travels from where, and that
answers do not depend on it."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from phyai_ros.engine import embedded
from phyai_ros.engine.frames import Frames, frame_of
from phyai_ros.engine.kernels import letterbox
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.staging import Grouped, Stack, Staging, whole
from phyai_ros.engine.structure import flatten
from phyai_ros.engine.types import Observation

CPU = torch.device("cpu")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def pool(count=2, height=4, width=6):
    frames = Frames(pinned=False)
    frames.reserve(height, width, count)
    return frames


def picture(rng, height=4, width=6):
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture
def rng():
    return np.random.default_rng()


def test_pixels_are_copied_and_cannot_be_written_to(rng):
    image = picture(rng)
    kept = pool().put(image)
    before = image.copy()
    image[:] = 0
    np.testing.assert_array_equal(kept, before)
    assert frame_of(kept) is not None
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0, 0] = 1


@pytest.mark.parametrize(
    "view",
    [
        lambda wide: wide[:, :6, 2::-1],
        lambda wide: wide[:, :6, :3],
        lambda wide: wide[::-1, 6:0:-1, :3],
        lambda wide: wide[:, ::2, 1:],
        lambda wide: np.broadcast_to(wide[:, :6, :1], (4, 6, 3)),
        lambda wide: np.ascontiguousarray(wide[..., :3])[:, 2:8],
    ],
    ids=["bgra", "rgba", "upside down", "every other", "mono", "padded rows"],
)
def test_any_strides_become_plain_pixels(rng, view):
    seen = view(rng.integers(0, 256, (4, 12, 4), dtype=np.uint8))
    kept = pool().put(seen)
    assert frame_of(kept) is not None
    assert kept.flags.c_contiguous
    np.testing.assert_array_equal(kept, seen)


def test_a_frame_is_free_when_nobody_holds_a_view_of_it(rng):
    frames = pool(count=1)
    kept = frames.put(picture(rng))
    address, corner = kept.ctypes.data, kept[1:, :2]
    seen = corner.copy()
    del kept
    refused = picture(rng)
    assert frames.put(refused) is refused
    np.testing.assert_array_equal(corner, seen)
    del corner
    again = frames.put(refused)
    assert again.ctypes.data == address
    np.testing.assert_array_equal(again, refused)


def test_what_finds_no_room_stays_where_it_is(rng):
    frames = pool(count=2)
    held = [frames.put(picture(rng)) for _ in range(2)]
    others = picture(rng), picture(rng, 5, 6), picture(rng).astype(np.float32)
    for image in others:
        assert frames.put(image) is image
    assert frames.put(held[0]) is held[0]
    frames.reserve(4, 6, 2)  # so many in all, not more
    assert frames.put(others[0]) is others[0]
    frames.reserve(4, 6, 3)
    assert frame_of(frames.put(others[0])) is not None


def test_only_the_frame_itself_is_taken_for_one(rng):
    kept = pool().put(picture(rng))
    for view in (kept[::-1], kept[1:], kept[:], kept.copy(), kept.view(np.int8)):
        assert frame_of(view) is None
    assert frame_of(np.asarray(kept)) is frame_of(kept)


def test_frames_outlive_their_pool(rng):
    image = picture(rng)
    frames = pool()
    kept = frames.put(image)
    del frames
    np.testing.assert_array_equal(kept, image)


def test_threads_never_share_a_frame():
    """Each holds some images for a while, as callbacks and requests do; none changes meanwhile."""
    frames, wrong, pooled = pool(count=6), [], []

    def work(seed):
        rng, held = np.random.default_rng(seed), []
        for _ in range(400):
            image = picture(rng)
            kept = frames.put(image)
            pooled.append(kept is not image)
            held.append((kept, image.copy()))
            if len(held) > 2:
                kept, expected = held.pop(int(rng.integers(3)))
                if not np.array_equal(kept, expected):
                    wrong.append(expected)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert any(pooled)
    last = [frames.put(np.full((4, 6, 3), i, np.uint8)) for i in range(6)]
    assert all(frame_of(kept) is not None for kept in last)
    assert len({kept.ctypes.data for kept in last}) == 6


@pytest.mark.parametrize("framed", [(), (0, 1, 2), (1,)], ids=["none", "all", "one"])
@pytest.mark.parametrize("rows", [None, np.array([0, 2, 3])], ids=["whole", "rows"])
def test_what_is_sent_is_what_is_written(rng, framed, rows):
    """From frames nothing goes through the host's buffer."""
    frames = pool(count=3)
    images = [picture(rng) for _ in range(3)]
    given = [frames.put(a) if i in framed else a for i, a in enumerate(images)]
    stack = Stack(given, rows)
    travels = slice(None) if rows is None or len(framed) == 3 else rows
    room = Staging([stack], CPU)
    room._host.fill_(77)
    for seat, image in zip(room.seats, stack.arrays, strict=True):
        seat.send(image)
    expected = np.stack([a[travels] for a in images])
    np.testing.assert_array_equal(room.device[0].numpy(), expected)
    direct = [len(framed) == 3 or (i in framed and rows is None) for i in range(3)]
    for i, untouched in enumerate(direct):
        host = room._rows[0][i]
        assert (host == 77).all() if untouched else np.array_equal(host, expected[i])
    room.write([stack])
    room.upload()
    np.testing.assert_array_equal(room.device[0].numpy(), expected)


def test_what_is_captured_for_frames_is_found_by_frames(rng):
    image, frames = picture(rng, 480, 64), pool(2, 480, 64)

    def staged(picture):
        return Grouped.of([((0, 0), picture)], lambda h, w: letterbox.rows_seen(h, w, 60, 60))

    plain, framed = staged(image), staged(frames.put(image))
    assert flatten(plain)[1] != flatten(framed)[1] == flatten(whole(plain))[1]
    assert flatten(whole(framed))[1] == flatten(framed)[1]
    found = letterbox.reference(torch.from_numpy(framed.stacks[0].arrays[0].copy())[None], 60, 60)
    rows = torch.from_numpy(image[plain.stacks[0].rows])[None]
    assert torch.equal(letterbox.reference(rows, 60, 60, height=480), found)


def observations(policy, size, count):
    rng, spec = np.random.default_rng(), policy.spec
    for _ in range(count):
        images = {k: picture(rng, *size) for k in spec.cameras}
        yield Observation(images, rng.normal(0, 0.1, spec.state_dim), "pick it up")


def same(policy, observation, framed, noise):
    plain, pooled = policy.infer(observation, noise), policy.infer(framed, noise)
    np.testing.assert_array_equal(plain.normalised, pooled.normalised)
    np.testing.assert_array_equal(plain.actions, pooled.actions)


@pytest.mark.parametrize("name", embedded.names())
def test_answers_do_not_depend_on_where_images_are(name):
    policy = load_policy(embedded.find(name))
    size = next(iter(policy.spec.camera_sizes.values()), (60, 80))
    (observation,) = observations(policy, size, 1)
    image = observation.images[policy.spec.cameras[0]]
    assert policy.frames.put(image) is image  # a CPU reads it wherever it is
    policy.frames.reserve(*size, len(observation.images))
    framed = {k: policy.frames.put(image) for k, image in observation.images.items()}
    assert all(frame_of(image) is not None for image in framed.values())
    same(policy, observation, replace(observation, images=framed), policy.draw(1))


@needs_cuda
@pytest.mark.cuda
@pytest.mark.parametrize("name", embedded.names())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_two_hundred_requests_never_see_an_older_image(name, dtype):
    """On a device: images change with every request, frames come back and are written to again
    while others are held, some requests are partly framed, and every answer has the bits of that
    to images in ordinary memory. Nothing is allocated and nobody waits twice."""
    policy = load_policy(embedded.find(name), device="cuda", dtype=dtype)
    size = next(iter(policy.spec.camera_sizes.values()), (480, 640))
    policy.warm_up(dict.fromkeys(policy.spec.cameras, size))
    rng = np.random.default_rng()
    noise = torch.randn(policy.noise_shape(1))
    held, before = [], policy.runner.replayed
    given = list(observations(policy, size, 200))
    plain = [policy.infer(observation, noise) for observation in given]
    torch.cuda.set_sync_debug_mode("error")
    try:
        for i, observation in enumerate(given):
            left_out = {k for k in observation.images if i % 5 == 4 and rng.random() < 0.5}
            framed = {
                k: image if k in left_out else policy.frames.put(image)
                for k, image in observation.images.items()
            }
            assert all((frame_of(v) is None) == (k in left_out) for k, v in framed.items())
            found = policy.infer(replace(observation, images=framed), noise)
            np.testing.assert_array_equal(found.normalised, plain[i].normalised)
            np.testing.assert_array_equal(found.actions, plain[i].actions)
            held.append(framed)
            if len(held) > 8:
                del held[int(rng.integers(len(held)))]
            del framed
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert policy.runner.replayed == before + 400
