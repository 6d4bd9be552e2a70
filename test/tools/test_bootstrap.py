# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The scripts that turn a bare machine into a working tree."""

import importlib
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy
import pytest

from scripts import bootstrap, generated_messages, mend_wheels, system_packages

ROOT = Path(__file__).resolve().parents[2]
EXPORT = (
    'INTERFACE_INCLUDE_DIRECTORIES "/opt/python/{tag}/include/python3.{minor};'
    '/opt/python/{tag}/lib/python3.{minor}/site-packages/numpy/{core}/include"'
)


@pytest.mark.parametrize("minor", [10, 11, 12, 13])
@pytest.mark.parametrize("core", ["core", "_core"])
def test_both_foreign_paths_become_this_environments_own(tmp_path, minor, core):
    folder = tmp_path / "share" / "std_msgs" / "cmake"
    folder.mkdir(parents=True)
    file = folder / "export.cmake"
    file.write_text(EXPORT.format(tag=f"cp3{minor}-cp3{minor}", minor=minor, core=core))
    include, own_numpy = sysconfig.get_paths()["include"], numpy.get_include()
    assert mend_wheels.mend(tmp_path, include, own_numpy) == [file]
    assert file.read_text() == f'INTERFACE_INCLUDE_DIRECTORIES "{include};{own_numpy}"'
    assert mend_wheels.mend(tmp_path, include, own_numpy) == [], "the second time changes nothing"


def test_an_environment_without_headers_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Python\.h"):
        mend_wheels.mend(tmp_path, str(tmp_path), numpy.get_include())


def test_this_environments_wheels_are_mended():
    left = [
        file
        for file in Path(sys.prefix).glob("share/*/cmake/*.cmake")
        if "/opt/python/" in file.read_text()
    ]
    if not list(Path(sys.prefix).glob("share/std_msgs/cmake")):
        pytest.skip("ROS 2 is installed, not from wheels")
    assert left == []


def test_only_generated_names_come_from_the_generated_folder(tmp_path):
    (tmp_path / "msg").mkdir()
    (tmp_path / "msg" / "__init__.py").touch()
    (tmp_path / "engine.py").touch()
    finder = generated_messages.GeneratedMessages(str(tmp_path))
    assert finder.find_spec("phyai_ros.msg").origin == str(tmp_path / "msg" / "__init__.py")
    assert finder.find_spec("phyai_ros.engine") is None, "a stale copy must not shadow the source"
    assert finder.find_spec("other.msg") is None


def test_source_and_messages_are_one_package():
    package = importlib.import_module("phyai_ros")
    messages = importlib.import_module("phyai_ros.msg")
    assert Path(package.__path__[0]) == ROOT / "phyai_ros"
    assert messages.ActionChunk(horizon=3).horizon == 3


def test_a_bootstrap_with_nothing_to_do_is_quick_and_silent():
    if Path(sys.prefix) != bootstrap.VENV:
        pytest.skip("this Python is not the one that bootstrap made")
    began = time.monotonic()
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "bootstrap.py"), "--test"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr
    assert time.monotonic() - began < 30, "it took as long as an installation"


def test_missing_packages_without_root_are_listed_exactly(monkeypatch):
    needs = {"there": lambda: True, "libosmesa6": lambda: False, "cmake": lambda: False}
    monkeypatch.setattr(system_packages, "needs", lambda: needs)
    monkeypatch.setattr(system_packages, "_privilege", lambda: None)
    with pytest.raises(SystemExit) as end:
        system_packages.install()
    text = str(end.value)
    assert "missing (no root, no sudo): libosmesa6 cmake\n" in text
    assert "sudo apt-get install" in text
    assert "there" not in text.replace("there is no", "")


def test_nothing_missing_asks_for_nothing(monkeypatch):
    monkeypatch.setattr(system_packages, "needs", lambda: {"there": lambda: True})
    monkeypatch.setattr(system_packages, "_privilege", lambda: pytest.fail("not needed"))
    system_packages.install()


def test_packages_are_installed_by_apt_where_that_is_allowed(monkeypatch, tmp_path):
    log = tmp_path / "log"
    fake = tmp_path / "apt-get"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(system_packages, "_privilege", list)
    needs = {"libosmesa6": lambda: log.exists() and "libosmesa6" in log.read_text()}
    monkeypatch.setattr(system_packages, "needs", lambda: needs)
    system_packages.install()
    assert "install -y --no-install-recommends libosmesa6" in log.read_text()


def test_a_distribution_without_the_second_renderer_is_fine(monkeypatch, tmp_path):
    """OSMesa left Mesa with 25.1."""
    log = tmp_path / "log"
    fake = tmp_path / "apt-get"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {log}\ncase "$@" in *osmesa*) exit 100;; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(system_packages, "_privilege", list)
    monkeypatch.setattr(system_packages, "_library", lambda name: lambda: False)
    needs = {"libegl1": lambda: log.exists() and "libegl1" in log.read_text()}
    monkeypatch.setattr(system_packages, "needs", lambda: needs)
    system_packages.install()
    assert [line.split()[-2] for line in log.read_text().splitlines()[1:]] == [
        "libegl1",
        "libosmesa6",
    ]


def test_apt_that_fails_says_what_is_still_missing(monkeypatch, tmp_path):
    fake = tmp_path / "apt-get"
    fake.write_text("#!/bin/sh\nexit 100\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(system_packages, "_privilege", list)
    monkeypatch.setattr(system_packages, "needs", lambda: {"libegl1": lambda: False})
    with pytest.raises(SystemExit, match="could not install: libegl1"):
        system_packages.install()


@pytest.mark.parametrize("version", [(3, 9), (3, 14)])
def test_a_python_without_wheels_is_refused_with_what_is_needed(monkeypatch, version):
    monkeypatch.setattr(bootstrap.sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"Python 3\.10, 3\.11, 3\.12 or 3\.13 is needed"):
        bootstrap.check_interpreter()


def test_an_old_python_hands_over_to_one_that_fits(monkeypatch):
    called = []
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 0, "final", 0))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: sys.executable)
    monkeypatch.setattr(bootstrap.os, "execv", lambda *words: called.append(words) or sys.exit(0))
    with pytest.raises(SystemExit):
        bootstrap.check_interpreter()
    assert called[0][0] == sys.executable


def test_requirements_are_pinned():
    for file in (ROOT / "requirements").glob("*.txt"):
        for line in file.read_text().splitlines():
            if line and not line.startswith("#"):
                assert "==" in line, f"{file.name}: {line}"
