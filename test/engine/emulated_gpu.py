# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Kernels for Hopper on a CPU: their sources as they are, in ``emulated_gpu.h``, launched by their
own wrappers on tensors of the CPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from ctypes import c_uint64
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from phyai_ros.engine.kernels import (
    _cuda,
    _tiles,
    cluster_attention,
    cluster_product,
    dit_product,
    gated_product,
    head_attention,
    many_attention,
    prefix_attention,
    tower_attention,
    wide_product,
)

KERNELS = (
    cluster_attention, cluster_product, dit_product, gated_product, head_attention, many_attention,
    prefix_attention, tower_attention, wide_product,
)  # fmt: skip
HERE = Path(__file__).parent
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


class _Map(ctypes.Structure):
    _fields_ = (
        ("base", c_uint64), ("element", c_uint64), ("axes", c_uint64),
        *((n, c_uint64 * 4) for n in ("sizes", "strides", "box")),
    )  # fmt: skip


def _plain(source: str) -> str:
    """Without the functions that are assembly or that ``emulated_gpu.h`` has."""
    here = set(re.findall(r"^inline .*?(\w+)\(", (HERE / "emulated_gpu.h").read_text(), flags=re.M))
    kept, lines = [], iter(source.splitlines())
    for line in lines:
        block = [line]
        if re.match(r"(template <.*>|DEV\b)", line):
            # Up to a closing brace in the first column; one-liners close on their own line.
            while block[-1] not in ("}", "};") and not re.search(r"{.*}$", block[-1]):
                block.append(next(lines))
        text = "\n".join(block)
        name = re.search(r"^(?:DEV|template <.*>\s+DEV)\b.*?(\w+)\(", text)
        if "asm" not in text and not (name and name[1] in here):
            kept.append(text)
    return "\n".join(kept)


class Emulated:
    """Stands for ``_cuda.Kernel``. seeds: of the order in which threads and copies go on, a launch
    each; a kernel that adds to what it is given is launched once."""

    seeds = (1, 2)

    def __init__(self, folder, name, files, defines, *, cluster, threads, shared, products=()):
        del products
        self._cluster, self._threads, self._shared = cluster, threads, shared
        texts = [(Path(_cuda._SOURCES) / f).read_text() for f in files]
        *headers, body = texts
        body = re.sub(
            r"extern __shared__ .*?(\w+)\[\];", r"u8* const \1 = gpu::now->block->memory;", body
        )
        source = "\n".join(
            [
                '#include "emulated_gpu.h"',
                *map(_plain, headers),
                body,
                '#include "emulated_launch.h"',
            ]
        )
        made = folder / f"{name}_{abs(hash((source, tuple(sorted(defines.items())))))}"
        made.with_suffix(".cc").write_text(source)
        options = ["-std=c++17", "-O2", "-w", "-Wno-psabi", "-mf16c", "-shared", "-fPIC"]
        given = [f"-D{key}={value}" for key, value in (*defines.items(), ("KERNEL", name))]
        files = ["-o", made.with_suffix(".so"), made.with_suffix(".cc")]
        subprocess.run(["g++", *options, f"-I{HERE}", *given, *files], check=True)
        self._library = ctypes.CDLL(str(made.with_suffix(".so")))

    def launch(self, blocks, arguments, *, dependent=False):
        del dependent
        for seed in self.seeds:
            failed = self._library.launch(
                ctypes.byref(arguments), blocks, self._cluster, self._threads, self._shared, seed
            )
            assert not failed, "the kernel hangs; see what was printed"


@pytest.fixture
def emulated(monkeypatch, tmp_path):
    """Kernels on the CPU; 2 multiprocessors, or as many as the fixture is told."""
    maps = []

    def encoded(of, sizes, strides, box, line):
        made = _Map(of.data_ptr(), of.element_size(), len(sizes))
        made.sizes[: len(sizes)], made.box[: len(box)] = list(sizes), list(box)
        made.strides[: len(strides)] = [s * of.element_size() for s in strides]
        assert box[0] * of.element_size() == line
        assert max(box) <= 256
        assert all(s % 16 == 0 for s in (of.data_ptr(), *made.strides))
        maps.append(made)
        out = _cuda.TensorMap()
        out.opaque[0] = ctypes.addressof(made)
        return out

    def kernel(name, files, defines, **options):
        return Emulated(tmp_path, name, files, defines, **options)

    monkeypatch.setattr(_tiles, "_encoded", encoded)
    monkeypatch.setattr(_cuda, "Kernel", kernel)
    monkeypatch.setattr(_cuda, "is_hopper", lambda device: True)
    properties = SimpleNamespace(multi_processor_count=2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    for module in KERNELS:
        module._kernel.cache_clear()
    yield properties
    for module in KERNELS:
        module._kernel.cache_clear()
