# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert in one launch: against its twin in float64 on fresh random inputs, and the same
bits however often it runs. On other machines: that the source compiles where a compiler is."""

import secrets
import shutil
import subprocess

import pytest
import torch

from phyai_ros.engine.kernels import _cuda, gemma_stack
from phyai_ros.engine.kernels.gemma_stack import GemmaStack, Layer, Norms

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
needs_hopper = pytest.mark.skipif(not HOPPER, reason="the kernel is Hopper's")
EPS = 1e-6


def case(depth, tokens, prefix, dtype, adaptive=True):
    seed = secrets.randbits(32)
    print("seed", seed)  # shown when a test fails
    generator = torch.Generator("cuda").manual_seed(seed)

    def draw(*shape, scale=1.0, shift=0.0):
        return torch.randn(*shape, device="cuda", generator=generator) * scale + shift

    def weight(out, width):
        return draw(out, width, scale=width**-0.5).to(dtype)

    layers = [
        Layer(weight(2560, 1024), weight(1024, 2048), weight(8192, 1024), weight(1024, 4096))
        for _ in range(depth)
    ]

    def vectors():
        scale = draw(1024, scale=0.2, shift=1.0)
        return (scale, draw(1024, scale=0.2), draw(1024)) if adaptive else (scale, None, None)

    norms = [Norms(*vectors(), *vectors()) for _ in range(depth)]
    length = prefix + tokens
    key, value = (draw(depth, 1, 1, length, 256).to(dtype) for _ in "kv")
    exists = torch.rand(1, length, device="cuda", generator=generator) > 0.1
    exists[:, prefix:] = True
    angle = draw(1, tokens, 128)
    cos, sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    return draw(tokens, 1024), layers, norms, (key, value, exists, cos, sin)


def relative(found, expected):
    return (found.double() - expected.double()).norm() / expected.double().norm()


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize(
    ("tokens", "prefix"), [(50, 816), (50, 968), (50, 1024), (41, 70), (32, 5), (54, 100)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("adaptive", [True, False])
def test_against_float64(tokens, prefix, dtype, adaptive):
    x, layers, norms, (key, value, exists, cos, sin) = case(2, tokens, prefix, dtype, adaptive)
    stack, packed = GemmaStack(layers, tokens), gemma_stack.vectors(layers, norms)
    keys, values = key.double(), value.double()
    rest = {"at": prefix, "eps": EPS}
    want = gemma_stack.reference(x.double(), layers, norms, keys, values, exists, cos, sin, **rest)
    found = stack(x.clone(), key, value, exists, cos, sin, packed, **rest)
    assert relative(found, want) < (3e-3 if dtype == torch.float16 else 2e-2)


@needs_hopper
@pytest.mark.cuda
def test_a_request_without_any_key_of_the_prefix():
    x, layers, norms, (key, value, exists, cos, sin) = case(2, 50, 300, torch.float16)
    exists[:, :300] = False
    stack, packed = GemmaStack(layers, 50), gemma_stack.vectors(layers, norms)
    want = gemma_stack.reference(
        x.double(), layers, norms, key.double(), value.double(), exists, cos, sin, at=300, eps=EPS
    )
    found = stack(x, key, value, exists, cos, sin, packed, at=300, eps=EPS)
    assert relative(found, want) < 3e-3


@needs_hopper
@pytest.mark.cuda
def test_replays_give_the_same_bits():
    """A missing barrier would show as a difference between runs."""
    x, layers, norms, rest = case(18, 50, 816, torch.float16)
    stack, packed = GemmaStack(layers, 50), gemma_stack.vectors(layers, norms)
    static, stream = x.clone(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        first = stack(x.clone(), *rest, packed, at=816, eps=EPS)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        stack(static, *rest, packed, at=816, eps=EPS)
        graph.capture_end()
    different = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(500):
        static.copy_(x)
        graph.replay()
        different += (static != first).any()
    assert int(different) == 0


@pytest.mark.parametrize("capability", ["90a"])
def test_compiles(capability, tmp_path):
    source = _cuda.source_of(gemma_stack.FILES)
    defines = ("-DTOKENS=50", "-DDEPTH=18", "-DBF16=1", "-DCLUSTERS=14")
    try:
        assert _cuda.compile_source(source, (f"--gpu-architecture=sm_{capability}", *defines))
    except OSError:
        if shutil.which("nvcc") is None:
            pytest.skip("neither NVRTC nor nvcc is here")
        target = f"-gencode=arch=compute_{capability},code=sm_{capability}"
        out = tmp_path / "kernel.cubin"
        file = tmp_path / "kernel.cu"
        file.write_text(source)
        subprocess.run(["nvcc", target, *defines, "-cubin", "-o", out, file], check=True)
        assert out.stat().st_size > 0


def test_offered_for_its_sizes_on_its_device_alone():
    layer = Layer(
        *(torch.zeros(s, dtype=torch.float16) for s in
          ((2560, 1024), (1024, 2048), (8192, 1024), (1024, 4096)))
    )  # fmt: skip
    assert not gemma_stack.fits([layer], 50)  # on the CPU
