# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ALOHA's policy, handoff and simulator over real DDS: by one forward command a tick, and by
Interbotix' messages, for which a package of their names and fields is built."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

VENV = Path(sys.prefix)
DOMAIN = 51
PACKAGE = "interbotix_xs_msgs"
FILES = {
    "package.xml": f"""<?xml version="1.0"?>
<package format="3">
  <name>{PACKAGE}</name>
  <version>0.0.0</version>
  <description>Messages of Interbotix' names and fields, for a test</description>
  <maintainer email="nobody@example.com">nobody</maintainer>
  <license>Apache-2.0</license>
  <buildtool_depend>ament_cmake</buildtool_depend>
  <buildtool_depend>rosidl_default_generators</buildtool_depend>
  <exec_depend>rosidl_default_runtime</exec_depend>
  <member_of_group>rosidl_interface_packages</member_of_group>
  <export><build_type>ament_cmake</build_type></export>
</package>
""",
    "CMakeLists.txt": f"""cmake_minimum_required(VERSION 3.16)
project({PACKAGE})
find_package(ament_cmake REQUIRED)
find_package(rosidl_default_generators REQUIRED)
rosidl_generate_interfaces({PACKAGE} msg/JointGroupCommand.msg msg/JointSingleCommand.msg)
ament_package()
""",
    "msg/JointGroupCommand.msg": "string name\nfloat32[] cmd\n",
    "msg/JointSingleCommand.msg": "string name\nfloat32 cmd\n",
}
colcon = VENV / "bin" / "colcon"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not colcon.is_file(), reason="no colcon in this environment"),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With the package built and found."""
    root = tmp_path_factory.mktemp("interbotix")
    for name, text in FILES.items():
        file = root / "src" / PACKAGE / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    building = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    building |= {
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(VENV),
        "AMENT_PREFIX_PATH": str(VENV),
        "CMAKE_PREFIX_PATH": str(VENV),
    }
    command = [str(colcon), "--log-base", "log", "build", "--paths", f"src/{PACKAGE}"]
    command += ["--merge-install", "--cmake-args", f"-DPython3_EXECUTABLE={sys.executable}"]
    command += ["-DBUILD_TESTING=OFF", "--no-warn-unused-cli"]
    built = subprocess.run(command, cwd=root, env=building, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    library = root / "install" / "lib"
    version = sysconfig.get_python_version()
    found = dict(os.environ, ROS_DOMAIN_ID=str(DOMAIN))
    for variable, path in (
        ("PYTHONPATH", library / f"python{version}" / "site-packages"),
        ("LD_LIBRARY_PATH", library),
    ):
        found[variable] = os.pathsep.join(filter(None, [str(path), found.get(variable)]))
    return found


def up(environment: dict[str, str], robot: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "phyai_ros.tools", "up", "model:=act", f"robot:={robot}"]
    return subprocess.run(
        [*command, "sim:=true", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )


PLAIN = dict(os.environ, ROS_DOMAIN_ID=str(DOMAIN))


def reaches(environment: dict[str, str], robot: str, folder: Path) -> None:
    done = up(environment, robot, "episodes:=2", f"out:={folder}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads((folder / "report.json").read_text())
    assert (report["success"]["of"], report["success"]["rate"]) == (2, 1.0), report["success"]


@pytest.mark.timeout(240)
def test_the_right_gripper_reaches_the_cube(tmp_path):
    reaches(PLAIN, "aloha", tmp_path)


@pytest.mark.timeout(300)
def test_the_right_gripper_reaches_the_cube_through_the_drivers_topics(environment, tmp_path):
    reaches(environment, "aloha_driver", tmp_path)


def test_without_the_messages_it_ends_and_says_what_to_build(tmp_path):
    done = up(PLAIN, "aloha_driver", "episodes:=1", f"out:={tmp_path}")
    assert done.returncode != 0
    assert "interbotix_xs_msgs/msg/JointGroupCommand is not installed here" in (
        done.stdout + done.stderr
    )
