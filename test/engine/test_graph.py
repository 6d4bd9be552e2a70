# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a captured request is made of, and on a GPU: replays against the fixtures and the eager
path, without a synchronisation or an allocation on the way."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pi_cases
import pytest
import torch
from golden import needs_golden, relative_error, tensors
from gr00t_case import load_e2e

from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.solver import RtcIdentity
from phyai_ros.engine.structure import flatten, replace
from phyai_ros.engine.types import Guidance, Observation

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import synthetic_checkpoint

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@dataclasses.dataclass(frozen=True)
class Record:
    values: torch.Tensor
    name: str
    rows: tuple[torch.Tensor, ...]


def request(length=3, name="a"):
    guide = RtcIdentity(torch.zeros(1, 2), torch.ones(1, 2))
    return (Record(torch.randn(2, length), name, (torch.zeros(1),)), guide, {"k": [torch.ones(1)]})


def test_one_structure_for_one_shape():
    first, second = flatten(request())[1], flatten(request())[1]
    assert first == second
    assert hash(first) == hash(second)
    assert flatten(request(length=4))[1] != first
    assert flatten(request(name="b"))[1] != first
    other = request()
    other[1].limit = 5.0
    assert flatten(other)[1] != first


def test_replace_puts_tensors_where_they_were():
    given = request()
    found, structure = flatten(given)
    twin = replace(given, iter([t + 1 for t in found]))
    assert flatten(twin)[1] == structure
    for before, after in zip(found, flatten(twin)[0], strict=True):
        torch.testing.assert_close(after, before + 1)
    torch.testing.assert_close(flatten(given)[0][0], found[0])


def captured(checkpoint, dtype="float32", batches=(1,)):
    policy = load_policy(checkpoint, device="cuda", dtype=dtype)
    policy.warm_up(batches=batches)
    assert policy.runner.buckets > 0
    return policy


@needs_cuda
@needs_golden
@pytest.mark.cuda
@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=True))
def test_pi_replay_is_exact(fixture, case):
    policy = captured(pi_cases.GOLDEN / fixture)
    arrays, before = tensors(fixture, case), policy.runner.replayed
    observation = pi_cases.observation(fixture, case)
    if len(observation.images) < len(policy.spec.cameras):
        policy.runner.capture(observation)
    chunk = policy.infer(observation, noise=arrays["e2e.noise"])
    assert policy.runner.replayed == before + 1
    expected = arrays["e2e.action_chunk"].reshape(chunk.actions.shape)
    assert relative_error(torch.from_numpy(chunk.actions), expected) < 1e-5


@needs_cuda
@needs_golden
@pytest.mark.cuda
def test_gr00t_replay_is_exact():
    policy, observation, expected = load_e2e("e2e0", device="cuda")
    eager = policy.infer(observation, expected["noise"])
    assert policy.runner.capture(observation) > 0
    chunk = policy.infer(observation, expected["noise"])
    assert policy.runner.replayed == 1
    np.testing.assert_allclose(chunk.normalised, eager.normalised, atol=2e-5)
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-3 * scale)


@needs_cuda
@needs_golden
@pytest.mark.cuda
def test_half_precision_replay_stays_near_float32():
    name, case = next(n for n in pi_cases.names(end_to_end=True) if n[0] == "pi05")
    arrays, observation = tensors(name, case), pi_cases.observation(name, case)
    policy = captured(pi_cases.GOLDEN / name, "bfloat16")
    chunk = policy.infer(observation, noise=arrays["e2e.noise"])
    plain = load_policy(
        pi_cases.GOLDEN / name, device="cuda", dtype="bfloat16", selector="reference"
    ).infer(observation, noise=arrays["e2e.noise"])
    exact = arrays["e2e.action_chunk"].reshape(chunk.actions.shape)
    own = relative_error(torch.from_numpy(plain.actions), exact)
    assert relative_error(torch.from_numpy(chunk.actions), exact) < max(1.5 * own, 1e-3)


@needs_cuda
@needs_golden
@pytest.mark.cuda
def test_requests_change_and_nothing_is_built():
    """Prompt length, batch and guidance change; every answer is the eager one, the device's
    allocator is not asked for memory, and a replay never makes the host wait."""
    policy, observation, _ = load_e2e("e2e0", device="cuda")
    reference, _, _ = load_e2e("e2e0", device="cuda", selector="reference")
    policy.runner.capture(observation, batches=(1, 2, 4))
    rng = np.random.default_rng(0)
    words = [
        "move",
        "the",
        "red",
        "block",
        "to",
        "the",
        "left",
        "side",
        "of",
        "the",
        "drawer",
        "and",
        "close",
        "it",
    ]
    rows = np.zeros((5, policy.spec.action_dim)) + reference.infer(observation).actions[:5]
    allocations = None
    for i in range(60):
        batch = (1, 2, 3, 4)[i % 4]
        requests = [
            dataclasses.replace(
                observation, instruction=" ".join(words[: 1 + int(rng.integers(len(words)))])
            )
            for _ in range(batch)
        ]
        guidance = [Guidance(rows, 2, "rtc_identity", 4) if i % 3 == 0 else None] * batch
        noise = torch.randn(policy.adapter.noise_shape(batch), generator=torch.Generator())
        found = policy.infer_batch(requests, noise, guidance)
        if i % 10 == 0:
            expected = reference.infer_batch(requests, noise, guidance)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one.normalised, other.normalised, atol=1e-4)
        if i == 12:
            allocations = torch.cuda.memory_stats()["num_device_alloc"]
    assert policy.runner.replayed == 60
    assert torch.cuda.memory_stats()["num_device_alloc"] == allocations


PUBLISHED_WIDTH = "pi05 of published width"
SENTENCE = "move the red block to the left side of the drawer and close it"


def changing(policy, observation, count, batches=(1, 2, 4)):
    """Requests of changing prompt length, batch, state and guidance, with their noise."""
    rng = np.random.default_rng(0)
    spec = policy.spec
    rows = np.zeros((5, spec.action_dim)) + policy.infer(observation).actions[:5]
    methods = [m for m in ("rtc_identity", "seam") if m in spec.guidance_methods]
    for i in range(count):
        batch = int(rng.integers(1, max(batches) + 1))
        wish = None
        if methods and i % 3:
            wish = Guidance(rows, int(rng.integers(3)), methods[i % len(methods)], 4)
        optional = spec.optional_cameras[-1:] if i % 4 == 1 and len(spec.cameras) > 1 else ()
        seen = {k: v for k, v in observation.images.items() if k not in optional}
        requests = [
            dataclasses.replace(
                observation,
                instruction=" ".join(SENTENCE.split()[: 1 + int(rng.integers(14))]),
                state=observation.state * (1 + 0.01 * rng.normal(size=observation.state.shape)),
                images=seen,
            )
            for _ in range(batch)
        ]
        noise = torch.randn(policy.adapter.noise_shape(batch))
        yield requests, noise, [wish] * batch


def allocator():
    """What would move if a request allocated, cached or gave back anything."""
    stats = torch.cuda.memory_stats()
    kinds = ("allocation.all.allocated", "allocated_bytes.all.allocated", "segment.all.current")
    return {k: stats[k] for k in (*kinds, "num_alloc_retries", "num_device_alloc", "num_ooms")}


@needs_cuda
@needs_golden
@pytest.mark.cuda
@pytest.mark.parametrize(
    "fixture", ["pi05", "pi0_openpi", "smolvla", "act", "groot_n17", PUBLISHED_WIDTH]
)
def test_two_hundred_requests_without_a_synchronisation_or_an_allocation(fixture, tmp_path):
    """Whole requests, from camera bytes on the host to robot units there, in CUDA's sync-debug
    error mode: what waits, but for the one event at the end, raises."""
    batches = (1, 2) if fixture == PUBLISHED_WIDTH else (1, 2, 4)
    if fixture == "groot_n17":
        policy, observation, _ = load_e2e("e2e0", device="cuda")
        policy.runner.capture(observation, batches=batches)
    else:
        checkpoint = pi_cases.GOLDEN / fixture
        if fixture == PUBLISHED_WIDTH:  # the kernels of the published sizes
            synthetic_checkpoint.make("pi05", checkpoint := tmp_path, layers=2, vocabulary=2048)
        policy = load_policy(checkpoint, device="cuda", dtype="bfloat16")
        rng = np.random.default_rng(0)
        spec = policy.spec
        images = {
            k: rng.integers(0, 255, (*spec.camera_sizes.get(k, (48, 64)), 3), dtype=np.uint8)
            for k in spec.cameras
        }
        observation = Observation(images, rng.normal(0, 0.1, spec.state_dim), "pick it up")
        optional = policy.spec.optional_cameras[-1:] if fixture != "act" else ()
        policy.warm_up(
            {k: v.shape[:2] for k, v in images.items()}, batches=batches, absent=optional
        )
    given = list(changing(policy, observation, 200, batches))
    policy.infer_batch(*given[0])
    before, replayed = allocator(), policy.runner.replayed
    torch.cuda.set_sync_debug_mode("error")
    try:
        for requests, noise, guidance in given:
            policy.infer_batch(requests, noise, guidance)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert policy.runner.replayed == replayed + 200
    assert allocator() == before


@needs_cuda
@needs_golden
@pytest.mark.cuda
@pytest.mark.parametrize("fixture", ["smolvla", "act", "diffusion"])
def test_other_families_replay_what_they_answer_eagerly(fixture):
    """A family without a fused form is captured as it is, or runs as before."""
    policy = load_policy(pi_cases.GOLDEN / fixture, device="cuda")
    plain = load_policy(pi_cases.GOLDEN / fixture, device="cuda", selector="reference")
    rng = np.random.default_rng(0)
    size = policy.spec.image_size or (96, 96)
    images = {
        key: rng.integers(0, 255, (*policy.spec.camera_sizes.get(key, size), 3), dtype=np.uint8)
        for key in policy.spec.cameras
    }
    observation = Observation(images, rng.normal(0, 0.1, policy.spec.state_dim), "pick it up")
    noise = torch.randn(policy.adapter.noise_shape(1))
    before = plain.infer(observation, noise)
    buckets = policy.runner.capture(observation)
    after = policy.infer(observation, noise)
    assert policy.runner.replayed == min(buckets, 1)
    np.testing.assert_allclose(after.normalised, before.normalised, atol=2e-5)


@needs_golden
def test_warm_up_takes_the_cameras_that_will_come():
    policy = load_policy(pi_cases.GOLDEN / "pi05")
    key = policy.spec.cameras[0]
    seen = []
    policy.runner.capture = lambda observation, batches: seen.append(observation) or 1
    policy.warm_up({key: (40, 60)})
    assert [k for o in seen for k in o.images] == [key]
    assert seen[0].images[key].shape == (40, 60, 3)
    seen.clear()
    first, second = policy.spec.cameras[:2]
    policy.warm_up({first: None, second: (40, 60)}, absent=[first, second])
    assert [tuple(o.images) for o in seen] == [(first, second), (second,), (first,)]


@needs_cuda
@needs_golden
@pytest.mark.cuda
def test_batches_are_captured_as_far_as_there_is_room():
    policy = load_policy(pi_cases.GOLDEN / "pi05_openpi", device="cuda")
    observation = pi_cases.observation("pi05_openpi", pi_cases.names(True, ("pi05_openpi",))[0][1])
    policy.runner.capture(observation, batches=None)
    noise = torch.randn(policy.adapter.noise_shape(20))
    together = policy.infer_batch([observation] * 20, noise)
    assert policy.runner.replayed == 1
    alone = policy.infer(observation, noise[19])
    assert policy.runner.replayed == 2
    np.testing.assert_allclose(together[19].normalised, alone.normalised, atol=5e-5)


@needs_cuda
@needs_golden
@pytest.mark.cuda
def test_images_of_another_size_are_resized_eagerly_and_told_once(caplog):
    policy = load_policy(pi_cases.GOLDEN / "pi05_openpi", device="cuda")
    observation = pi_cases.observation("pi05_openpi", pi_cases.names(True, ("pi05_openpi",))[0][1])
    policy.runner.capture(observation)
    wide = {k: np.repeat(v, 2, axis=1) for k, v in observation.images.items()}
    other = dataclasses.replace(observation, images=wide)
    noise = torch.randn(policy.adapter.noise_shape(1))
    for _ in range(2):
        found = policy.infer(other, noise)
    assert policy.runner.replayed == 2
    assert caplog.text.count("images of a size that was not captured") == 1
    plain = load_policy(pi_cases.GOLDEN / "pi05_openpi", device="cuda", selector="reference")
    expected = plain.infer(other, noise)
    np.testing.assert_allclose(found.normalised, expected.normalised, atol=2e-5)
