# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""CUDA C++ where Triton cannot reach: NVRTC, which torch brings along, and the driver, by ctypes.

Sources include no header, so no toolkit is needed. What was compiled is kept in
``PHYAI_ROS_CACHE``; no NVRTC only means that the kernels of these sources are not offered.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_char_p, c_int, c_uint, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import torch

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_SOURCES = Path(__file__).parent / "cuda"
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CARVEOUT = 9  # CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in percent
_CLUSTER, _DEPENDENT = 4, 6  # CUlaunchAttributeID


MOST_SHARED = 227 * 1024
"""Bytes a block of Hopper may have."""
REGISTERS = 65536
"""Of a multiprocessor of Hopper."""


def is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


def address(t: torch.Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()


class CudaError(RuntimeError):
    """A source does not compile or a call of the driver failed."""


class Attempt:
    """Making or launching kernels that have something else in their place. what: runs without
    them, in a warning, which is told once; nothing is tried after it."""

    def __init__(self, what: str):
        self._what, self.refused = what, False

    def __call__(self, make: Callable[[], _T]) -> _T | None:
        """What ``make`` gives; None where the compiler or the driver refuses it."""
        if self.refused:
            return None
        try:
            return make()
        except (OSError, CudaError) as error:
            _log.warning("the %s runs without its kernels for Hopper: %s", self._what, error)
            self.refused = True
            return None


class _Attribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint), ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)), ("count", c_uint),
    )  # fmt: skip


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@lru_cache(maxsize=1)
def _nvrtc() -> ctypes.CDLL:
    major = str(torch.version.cuda).split(".")[0]
    lib = ctypes.CDLL(f"libnvrtc.so.{major}")
    lib.nvrtcGetErrorString.restype = c_char_p
    return lib


def _check(result: int) -> None:
    if result:
        text = c_char_p()
        _driver().cuGetErrorString(result, byref(text))
        raise CudaError((text.value or b"unknown error").decode())


def compile_source(source: str, options: tuple[str, ...]) -> bytes:
    """-> a cubin. Raises CudaError with the compiler's log, OSError where there is no NVRTC."""
    lib, program = _nvrtc(), c_void_p()
    lib.nvrtcCreateProgram(byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        given = (c_char_p * len(options))(*(o.encode() for o in options))
        if lib.nvrtcCompileProgram(program, len(options), given):
            size = ctypes.c_size_t()
            lib.nvrtcGetProgramLogSize(program, byref(size))
            text = ctypes.create_string_buffer(size.value)
            lib.nvrtcGetProgramLog(program, text)
            raise CudaError(text.value.decode())
        size = ctypes.c_size_t()
        lib.nvrtcGetCUBINSize(program, byref(size))
        code = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetCUBIN(program, code)
        return code.raw
    finally:
        lib.nvrtcDestroyProgram(byref(program))


def source_of(files: Sequence[str], products: Sequence[str] = ()) -> str:
    """Files of ``cuda/`` one behind the other; texts of products behind the first."""
    first, *rest = ((_SOURCES / f).read_text() for f in files)
    return "\n".join((first, *products, *rest))


def _compiled(name: str, source: str, options: tuple[str, ...]) -> bytes:
    """The cubin of a source, from the cache where it is there."""
    digest = hashlib.sha256("\0".join((source, str(torch.version.cuda), *options)).encode())
    root = os.environ.get("PHYAI_ROS_CACHE") or Path.home() / ".cache" / "phyai_ros"
    file = Path(root) / "cubins" / f"{name}_{digest.hexdigest()[:24]}.cubin"
    if file.is_file():
        return file.read_bytes()
    code = compile_source(source, options)
    partial = file.with_suffix(f".{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(code)
        partial.replace(file)
    except OSError as error:
        _log.warning("a compiled kernel is not kept: %s", error)
    return code


class TensorMap(ctypes.Structure):
    """What the copy engine reads a matrix by; a kernel's argument, at a multiple of 64 bytes."""

    _fields_ = (("opaque", c_uint64 * 16),)


class Kernel:
    """One entry of a source, loaded on the current device.

    files: of ``cuda/``, one behind the other; products: columns of the warpgroup's products
    (``_wgmma``) that stand behind the first of them. cluster: blocks of a cluster.
    """

    def __init__(
        self, name: str, files: Sequence[str], defines: Mapping[str, int], *, cluster: int,
        threads: int, shared: int, products: Sequence[str] = (),
    ):  # fmt: skip
        major, minor = torch.cuda.get_device_capability()
        options = (
            f"--gpu-architecture=sm_{major}{minor}a",
            *(f"-D{key}={value}" for key, value in sorted(defines.items())),
        )
        self._module, self._function = c_void_p(), c_void_p()
        torch.cuda.current_stream()  # there is a context
        code = _compiled(name, source_of(files, products), options)
        _check(_driver().cuModuleLoadData(byref(self._module), code))
        _check(_driver().cuModuleGetFunction(byref(self._function), self._module, name.encode()))
        _check(_driver().cuFuncSetAttribute(self._function, _DYNAMIC_SHARED, shared))
        # A multiprocessor divides its memory anew only when nothing runs on it: kernels that are to
        # stand side by side ask for the same.
        _check(_driver().cuFuncSetAttribute(self._function, _CARVEOUT, 100))
        self._cluster, self._threads, self._shared = cluster, threads, shared

    def _config(self, blocks: int, attributes: ctypes.Array[_Attribute]) -> _Config:
        return _Config(
            (c_uint * 3)(blocks, 1, 1), (c_uint * 3)(self._threads, 1, 1), self._shared,
            torch.cuda.current_stream().cuda_stream, attributes, len(attributes),
        )  # fmt: skip

    def launch(self, blocks: int, arguments: ctypes.Structure, *, dependent: bool = False) -> None:
        """arguments: the kernel's one parameter, by value. dependent: start while the kernel in
        front ends; this one waits for it by itself."""
        attributes = (_Attribute * (2 if dependent else 1))()
        attributes[0].id, attributes[0].value[:3] = _CLUSTER, [self._cluster, 1, 1]
        if dependent:
            attributes[1].id, attributes[1].value[0] = _DEPENDENT, 1
        config = self._config(blocks, attributes)
        size = ctypes.sizeof(arguments)
        given = (c_uint64 * (-(-size // 64) * 8))()  # as long as the kernel's own
        ctypes.memmove(given, byref(arguments), size)
        parameters = (c_void_p * 1)(ctypes.addressof(given))
        _check(_driver().cuLaunchKernelEx(byref(config), self._function, parameters, None))
