# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""From a bare machine to a working tree: system packages, ``.venv``, ROS 2 wheels, messages.

    python3 scripts/bootstrap.py [--test] [--docs]

Everything is stamped with a hash of what it was made from, so a second run does nothing. Runs with
the standard library alone. ``PHYAI_TORCH_INDEX`` names an extra package index to take torch from
(say, one with CPU-only builds).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BUILD = ROOT / ".build"
INSTALL = BUILD / "install"
SUPPORTED = ((3, 10), (3, 13))
PREFERRED = ("python3.11", "python3.12", "python3.10", "python3.13")
PIP = "pip==26.3"
REQUIREMENTS = {
    "demo": ("ros_kilted", "build", "demo", "models"),
    "test": ("test",),
    "docs": ("docs",),
}
ALONE = ("models",)
"""Requirement files of packages whose own requirements are not wanted."""


def check_interpreter() -> None:
    """Continue with a Python the ROS 2 wheels exist for, or exit saying what is needed."""
    if SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
            sys.exit(
                "The ROS 2 wheels exist for Linux on x86-64 only; this is "
                f"{sys.platform} on {platform.machine()}. Use a ROS 2 installation and colcon here."
            )
        return
    for name in PREFERRED:
        found = shutil.which(name)
        # A version manager's shim can be there while its version is not active.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            os.execv(found, [found, *sys.argv])
    sys.exit(
        "Python 3.10, 3.11, 3.12 or 3.13 is needed (the ROS 2 wheels exist for those); "
        f"{sys.executable} is {platform.python_version()} and none of {', '.join(PREFERRED)} "
        "was found. Install one, or name it: make PYTHON=/path/to/python3.11"
    )


def digest(files: list[Path], *more: str) -> str:
    """Hash of files (by content and name) and strings."""
    total = hashlib.sha256("\0".join(more).encode())
    for file in files:
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def run(command: list[str], log: Path, env: dict[str, str] | None = None) -> None:
    """Run quietly; on failure show the end of the log and exit."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        status = subprocess.call(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    if status:
        tail = log.read_text(errors="replace").splitlines()[-40:]
        print("\n".join(tail), file=sys.stderr)
        sys.exit(f"failed ({status}): {' '.join(command[:6])} ... (whole log: {log})")


def make_environment(groups: list[str]) -> str:
    """Create or update ``.venv`` with the requirement files of ``groups``; its stamp."""
    names = [name for group in groups for name in REQUIREMENTS[group]]
    files = [ROOT / "requirements" / f"{name}.txt" for name in names]
    mender = ROOT / "scripts" / "mend_wheels.py"
    version = platform.python_version()
    stamps = VENV / "stamps"
    python = VENV / "bin" / "python"

    made = stamps / "python"
    if not made.is_file() or made.read_text() != version:
        if VENV.exists():
            shutil.rmtree(VENV)
        print(f"making .venv with Python {version}", flush=True)
        run([sys.executable, "-m", "venv", str(VENV)], BUILD / "log" / "venv.log")
        # A Python's bundled pip may be old enough to lose itself in these requirements.
        run([str(python), "-m", "pip", "install", PIP], BUILD / "log" / "pip.log")
        stamps.mkdir()
        made.write_text(version)

    for file in files:
        stamp, value = stamps / file.stem, digest([file])
        if stamp.is_file() and stamp.read_text() == value:
            continue
        print(f"installing requirements/{file.name}", flush=True)
        install = [str(python), "-m", "pip", "install", "-r", str(file)]
        if file.stem in ALONE:
            install.append("--no-deps")
        index = os.environ.get("PHYAI_TORCH_INDEX")
        if index:
            install += ["--extra-index-url", index]
        run(install, BUILD / "log" / f"pip-{file.stem}.log")
        stamp.write_text(value)

    built_on = [name for name in REQUIREMENTS["demo"] if name not in ALONE]
    core = [ROOT / "requirements" / f"{name}.txt" for name in built_on]
    value = digest([*core, mender, ROOT / "setup.cfg"], version, str(ROOT))
    stamp = stamps / "project"
    if not stamp.is_file() or stamp.read_text() != value:
        run([str(python), str(mender)], BUILD / "log" / "mend.log")
        editable = ["install", "--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        run([str(python), "-m", "pip", *editable], BUILD / "log" / "pip-project.log")
        stamp.write_text(value)
    return value


def build_messages(environment: str) -> None:
    """colcon build of this package, and its messages made importable from ``.venv``."""
    sources = [ROOT / "package.xml", ROOT / "CMakeLists.txt", *sorted(ROOT.glob("msg/*.msg"))]
    hook = ROOT / "scripts" / "generated_messages.py"
    value = digest([*sources, hook], environment, str(ROOT))
    stamp = BUILD / "messages.sha256"
    if stamp.is_file() and stamp.read_text() == value:
        return
    print("building the messages with colcon", flush=True)
    env = dict(os.environ)
    env["PATH"] = f"{VENV / 'bin'}{os.pathsep}{env['PATH']}"
    env["VIRTUAL_ENV"] = str(VENV)
    env["AMENT_PREFIX_PATH"] = env["CMAKE_PREFIX_PATH"] = str(VENV)
    env.pop("PYTHONPATH", None)
    command = [str(VENV / "bin" / "colcon"), "--log-base", str(BUILD / "log")]
    command += ["build", "--paths", str(staged_source()), "--merge-install", "--symlink-install"]
    command += ["--build-base", str(BUILD / "build"), "--install-base", str(INSTALL)]
    command += ["--cmake-args", f"-DPython3_EXECUTABLE={VENV / 'bin' / 'python'}"]
    command += ["-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release", "--no-warn-unused-cli"]
    run(command, BUILD / "log" / "colcon.log", env)
    link_messages(hook)
    stamp.write_text(value)


def staged_source() -> Path:
    """The package as colcon shall see it, as links in ``.build/src``.

    CMake refuses to export a target with an include folder inside its own source tree, and numpy's
    lies in ``.venv``.
    """
    staged = BUILD / "src" / "phyai_ros"
    staged.mkdir(parents=True, exist_ok=True)
    for name in (
        "package.xml",
        "CMakeLists.txt",
        "msg",
        "phyai_ros",
        "launch",
        "config",
        "scripts",
        "docs",
    ):
        link(ROOT / name, staged / name)
    return staged


def link(target: Path, at: Path) -> None:
    if at.is_symlink():
        at.unlink()
    at.symlink_to(target)


def link_messages(hook: Path) -> None:
    """``.venv/bin/python`` sees the messages: libraries beside ROS's own, modules by the hook."""
    for library in (INSTALL / "lib").glob("libphyai_ros__*.so"):
        link(library, VENV / "lib" / library.name)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = VENV / "lib" / version / "site-packages"
    generated = INSTALL / "lib" / version / "site-packages" / "phyai_ros"
    if not (generated / "msg").is_dir():
        sys.exit(f"colcon built no {generated / 'msg'}; see {BUILD / 'log' / 'colcon.log'}")
    shutil.copyfile(hook, site / "_phyai_ros_generated.py")
    line = f"import _phyai_ros_generated; _phyai_ros_generated.install({str(generated)!r})\n"
    (site / "phyai_ros_generated.pth").write_text(line)


def main() -> int:
    check_interpreter()
    parser = argparse.ArgumentParser(description="Prepare this working tree.")
    parser.add_argument("--test", action="store_true", help="also what tests and linters need")
    parser.add_argument("--docs", action="store_true", help="also what builds the pages of docs/")
    chosen = vars(parser.parse_args())
    groups = ["demo", *(name for name in ("test", "docs") if chosen[name])]
    sys.path.insert(0, str(ROOT))
    from scripts import system_packages

    system_packages.install()
    build_messages(make_environment(groups))
    return 0


if __name__ == "__main__":
    sys.exit(main())
