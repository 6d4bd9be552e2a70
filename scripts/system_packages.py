# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""System packages this project needs: which are missing, and installing them where allowed.

Each need is tested by what it gives (a program, a header, a library), not by a package's name, so
a machine that has it from elsewhere is left alone.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Callable  # noqa: UP035 (this file also runs before the version check)


def _library(name: str) -> Callable[[], bool]:
    return lambda: ctypes.util.find_library(name) is not None


def _software_gl() -> bool:
    """Mesa's software renderer, which EGL loads by itself."""
    roots = [Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")]
    patterns = ("dri/swrast_dri.so", "*/dri/swrast_dri.so", "libgallium*.so", "*/libgallium*.so")
    return any(next(root.glob(p), None) for root in roots for p in patterns)


def _python_headers() -> bool:
    return Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def _venv() -> bool:
    return importlib.util.find_spec("ensurepip") is not None


def needs() -> dict[str, Callable[[], bool]]:
    """Debian and Ubuntu package name -> whether what it gives is already there."""
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return {
        "cmake": lambda: shutil.which("cmake") is not None,
        "g++": lambda: shutil.which("g++") is not None or shutil.which("c++") is not None,
        "make": lambda: shutil.which("make") is not None,
        f"{python}-venv": _venv,
        f"{python}-dev": _python_headers,
        "libegl1": _library("EGL"),
        "libgl1-mesa-dri": _software_gl,
    }


FALLBACK = "libosmesa6"
"""The simulator's second renderer. Distributions with Mesa 25.1 and later have it no more, so it is
asked for beside the others and nothing depends on the answer."""


def missing() -> list[str]:
    return [package for package, there in needs().items() if not there()]


def install() -> None:
    """Install what is missing through apt, or exit with a message that says exactly what."""
    packages = missing()
    if not packages:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    prefix = _privilege()
    if shutil.which("apt-get") is None or prefix is None:
        why = "there is no apt-get here" if shutil.which("apt-get") is None else "no root, no sudo"
        sys.exit(
            f"These system packages are missing ({why}): {' '.join(packages)}\n"
            f"Install them (Debian, Ubuntu: sudo {' '.join(command)}), then run make again."
        )
    print("installing system packages:", " ".join(packages), flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run([*prefix, "apt-get", "update", "-qq"], check=False, env=environment)
    done = subprocess.run([*prefix, *command, "-qq"], check=False, env=environment)
    if not _library("OSMesa")():
        beside = [*prefix, *command[: -len(packages)], FALLBACK, "-qq"]
        subprocess.run(beside, check=False, env=environment, stderr=subprocess.DEVNULL)
    still = missing()
    if done.returncode or still:
        sys.exit(
            f"apt-get could not install: {' '.join(still or packages)}\n"
            f"Install them by hand, then run make again."
        )


def _privilege():  # type: ignore[no-untyped-def]
    """What to put before apt-get: nothing for root, sudo where it asks no question, else None."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], check=False).returncode == 0:
        return ["sudo", "-n"]
    return None
