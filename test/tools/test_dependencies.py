# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the code imports is declared: for pip in setup.cfg, for ROS in package.xml; what make demo
installs is pinned. And who owns it is said in every source file."""

import ast
import configparser
import importlib.metadata
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
FILES = [*(ROOT / "phyai_ros").rglob("*.py"), *(ROOT / "launch").glob("*.py")]
NEVER_FROM_PIP = {"compression"}  # the standard library's since Python 3.14
WITH_TORCH = {"triton"}


def imported():
    """First names of all that is imported and is neither the standard library's nor our own."""
    names = set()
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"phyai_ros"} - NEVER_FROM_PIP - WITH_TORCH


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required(lines):
    """Names of requirements, one a line."""
    found = (re.match(r"[A-Za-z0-9_.-]+", line.strip()) for line in lines)
    return {canonical(match[0]) for match in found if match}


def declared():
    package = ElementTree.parse(ROOT / "package.xml")
    ros = {e.text for kind in ("depend", "exec_depend") for e in package.iter(kind)}
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].splitlines()
    for extra in setup["options.extras_require"].values():
        lines += extra.splitlines()
    return ros, required(lines)


def test_every_import_is_declared_for_pip_or_for_ros():
    ros, pip = declared()
    from_pip = importlib.metadata.packages_distributions()
    for name in imported():
        distributions = {canonical(d) for d in from_pip.get(name, ())}
        own = {d for d in distributions if not d.startswith("ros-")}
        assert name in ros or own & pip, f"import {name}: add it to setup.cfg or package.xml"
        assert name in ros or own, f"import {name}: of no ROS package in package.xml"


def test_what_pip_is_told_is_pinned_for_the_demo():
    pinned = required((ROOT / "requirements" / "demo.txt").read_text().splitlines())
    _, pip = declared()
    assert pip - pinned == set()


def test_every_source_file_says_whose_it_is():
    """__init__.py of the package itself has to be empty: rosidl writes one of the same name."""
    files = [ROOT / ".ci" / "run", *(ROOT / "scripts" / "bin").iterdir()]
    for folder in (
        "phyai_ros",
        "launch",
        "scripts",
        "tools",
        "benchmarks",
        "docs",
        "docker",
        "test",
    ):
        files += [f for f in (ROOT / folder).rglob("*") if f.suffix in (".py", ".sh")]
    assert len(files) > 400
    for file in files:
        text = file.read_text() if file.is_file() and file.suffix != ".pyc" else ""
        if text.strip():
            head = "\n".join(text.splitlines()[:3])
            assert "Copyright 2026 the phyai_ros authors." in head, file
            assert "SPDX-License-Identifier: Apache-2.0" in head, file
