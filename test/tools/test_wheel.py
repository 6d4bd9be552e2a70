# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``pip install .`` brings everything: a wheel built from a copy of the tree, listed and used."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
USE = """
import sys
from pathlib import Path
import phyai_ros.engine.policy as policy

here = Path(sys.argv[1])
assert Path(policy.__file__).is_relative_to(here), policy.__file__
loaded = policy.load_policy("gr00t_ur10e_small")
assert Path(loaded.spec.checkpoint).is_relative_to(here), loaded.spec.checkpoint
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    copy = tmp_path_factory.mktemp("source")
    skip = shutil.ignore_patterns("__pycache__")
    for name in ("phyai_ros", "config", "msg"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=skip)
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy)
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", "out", "."]
    subprocess.run([sys.executable, "-m", "pip", *words], cwd=copy, check=True)
    (found,) = (copy / "out").glob("*.whl")
    return found


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    there = set(zipfile.ZipFile(wheel).namelist())
    package = {
        str(file.relative_to(REPOSITORY))
        for file in (REPOSITORY / "phyai_ros").rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }
    assert package - there == set()
    assert "phyai_ros/engine/layers/tuned/nvidia_h200.json" in there
    assert "phyai_ros/checkpoints/gr00t_ur10e_small/model.safetensors" in there
    share = {name.partition("/share/phyai_ros/")[2] for name in there}
    config = {
        str(f.relative_to(REPOSITORY)) for f in (REPOSITORY / "config").rglob("*") if f.is_file()
    }
    assert config - share == set()
    assert {f"msg/{file.name}" for file in (REPOSITORY / "msg").glob("*.msg")} <= share


def test_the_unpacked_wheel_loads_the_embedded_checkpoint(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path / "site")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


def test_colcon_installs_the_package_whole_and_the_configuration():
    """Everything under phyai_ros/ but caches, and config as a folder: no list that could lag."""
    text = " ".join((REPOSITORY / "CMakeLists.txt").read_text().split())
    assert "install(DIRECTORY phyai_ros/ DESTINATION" in text
    assert 'PATTERN "__pycache__" EXCLUDE )' in text
    assert "install(DIRECTORY launch config DESTINATION share/" in text


BAG = """
import sys
from pathlib import Path

sys.meta_path[:] = [f for f in sys.meta_path if "GeneratedMessages" not in str(type(f))]
sys.modules["rclpy"] = None
from phyai_ros.bags import definitions
from phyai_ros.replay import replay

assert Path(definitions.__file__).is_relative_to(sys.argv[1])
for name in ("ActionChunk", "HandoffState", "InferenceRequest", "StageTimes"):
    assert f"phyai_ros/msg/{name}" in definitions.known(), definitions.message_folders()
"""


def test_bags_are_read_where_there_is_no_ros(wheel, tmp_path):
    """The wheel as pip lays it out; replay's modules import without rclpy."""
    site = tmp_path / "lib" / "python3" / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    (data,) = site.glob("*.data/data/share")
    shutil.move(data, tmp_path / "share")
    environment = {k: v for k, v in os.environ.items() if k != "AMENT_PREFIX_PATH"}
    result = subprocess.run(
        [sys.executable, "-c", BAG, str(tmp_path)],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
