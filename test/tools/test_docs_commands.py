# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every command that a page, a command's own help or a workflow names is there and takes what it is
given: programs, subcommands, options, arguments, Makefile targets, scripts, node parameters."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from phyai_ros.nodes import graph, handoff_node, overlay_node, policy_node, sim_node
from phyai_ros.tools import cli, up

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
PROGRAMS = ("phyai-ros", "make", "python", "ros2")
NODES = {
    module.__name__.rsplit(".", 1)[1]: {parameter.name for parameter in module.PARAMETERS}
    for module in (policy_node, handoff_node, overlay_node, sim_node)
}


def commands(text):
    """[words] of each command in a page: lines of its blocks, and words in backticks."""
    text = re.sub(r"\\\n\s*", " ", text)
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    for line in lines:
        for part in re.split(r"&&|;|\s#\s|\s\|\s", line):
            part = re.sub(r"^\s*\$\s", "", part).strip()
            if part.startswith(PROGRAMS):
                words = shlex.split(part.replace("<", "'<").replace(">", ">'"))
                yield [word.split("(")[0] for word in words]


FOUND = [(page.name, words) for page in PAGES for words in commands(page.read_text())]


def kept(start, at=0):
    """[(page, the words after start)]"""
    return [(page, w[len(start) + at :]) for page, w in FOUND if w[: len(start)] == list(start)]


@pytest.fixture(scope="module")
def options():
    """Subcommand -> the options that its help names."""
    import contextlib
    import io

    found = {}
    for name in cli.COMMANDS:
        module = importlib.import_module(f"phyai_ros.tools.{name.replace('-', '_')}")
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            module.main(["--help"])
        found[name] = text.getvalue()
    return found


def check(name, words, options):
    """A subcommand with its words."""
    assert name in cli.COMMANDS, f"there is no phyai-ros {name}"
    if name == "up":
        known = {argument.name for argument in (*graph.ARGUMENTS, *up.ARGUMENTS)}
        for word in words:
            if ":=" in word:
                assert word.partition(":=")[0] in known, word
        return
    usage = options[name]
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"{re.escape(word.partition('=')[0])}\b", usage), f"{name} {word}"


def test_phyai_ros_as_the_pages_name_it(options):
    found = kept(["phyai-ros"]) + kept(["ros2", "run", "phyai_ros", "phyai-ros"])
    assert len(found) > 40
    for page, words in found:
        if not words or words[0].startswith("--"):
            continue
        try:
            check(words[0], words[1:], options)
        except AssertionError as error:
            raise AssertionError(f"{page}: phyai-ros {' '.join(words)}: {error}") from error


def test_phyai_ros_as_its_own_help_names_it(options):
    count = 0
    for name, text in options.items():
        text = re.sub(r"\\\n\s*", " ", text)
        examples = re.findall(r"^ +phyai-ros (.*)", text, re.MULTILINE)
        for example in examples:
            words = shlex.split(re.split(r"\s{3,}", example)[0])
            check(words[0], words[1:], options)
            count += 1
        assert examples, f"phyai-ros {name} --help shows no example"
    assert count > 30


def test_launch_files_and_their_arguments():
    found = kept(["ros2", "launch", "phyai_ros"])
    assert found
    known = {argument.name for argument in graph.ARGUMENTS}
    for page, (file, *words) in found:
        text = (ROOT / "launch" / file).read_text()
        own = set(re.findall(r'DeclareLaunchArgument\("(\w+)"', text))
        names = {word.partition(":=")[0] for word in words if ":=" in word}
        assert names <= known | own, f"{page}: {file} {words}"


def test_nodes_and_their_parameters():
    found = kept(["ros2", "run", "phyai_ros"])
    for page, (node, *words) in found:
        if node == "phyai-ros":
            continue
        assert (ROOT / "scripts" / "bin" / node).is_file(), f"{page}: {node}"
        assert f"scripts/bin/{node}\n" in (ROOT / "CMakeLists.txt").read_text()
        names = {word.partition(":=")[0] for word in words if ":=" in word}
        assert names <= NODES[node] | {"use_sim_time"}, f"{page}: {node} {words}"
    for page, (node, name, *_) in kept(["ros2", "param", "set"]):
        assert name in NODES[node.lstrip("/")], f"{page}: {node} {name}"
    for page, (service, *_) in kept(["ros2", "service", "call"]):
        node, name = service.lstrip("/").split("/")
        assert node in NODES, page
        assert name in {"hold", "resume", "reset"}, f"{page}: {service}"


TARGETS = set(re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
TARGETS = {name for names in TARGETS for name in names.split()}


def test_makefile_targets():
    for page, words in kept(["make"]):
        for word in words[:1]:
            assert word in TARGETS or "=" in word, f"{page}: make {word}"
    others = [".ci/run", ".github/workflows/ci.yml", "docker/Dockerfile", "CONTRIBUTING.md"]
    called = {t for f in others for t in re.findall(r"\bmake ([a-z-]+)", (ROOT / f).read_text())}
    assert called <= TARGETS | {"install"}, called
    help_ = re.findall(r"\bmake ([a-z-]+) ", (ROOT / "Makefile").read_text())
    assert len(help_) > 8
    assert set(help_) <= TARGETS


def test_scripts_and_modules_with_their_options():
    found = kept(["python"])
    assert len(found) > 15
    for page, (first, *words) in found:
        if first == "-m" and words[0] == "phyai_ros.tools":
            continue
        if first == "-m":
            file = ROOT / (words[0].replace(".", "/") + ".py")
            words = words[1:]
        else:
            file = ROOT / first
        assert file.is_file(), f"{page}: python {first} {words}"
        texts = {
            n.value for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Constant)
        }
        for word in words:
            if word.startswith("--") and word not in texts:
                # an option that several share is declared beside them, and some pass their words
                # on to a command
                beside = [*file.parent.glob("*.py"), *(ROOT / "phyai_ros" / "tools").glob("*.py")]
                shared = "".join(f.read_text() for f in beside)
                assert f'"{word}"' in shared, f"{page}: {file.name} {word}"


def test_files_that_workflow_and_container_name():
    for name in (".github/workflows/ci.yml", "docker/Dockerfile"):
        text = (ROOT / name).read_text()
        for file in re.findall(r"src/phyai_ros/([\w./]+)", text):
            assert (ROOT / file).exists(), f"{name}: {file}"
        for folders in re.findall(r"\btest/\{([\w,]+)\}", text):
            for folder in folders.split(","):
                assert (ROOT / "test" / folder).is_dir(), f"{name}: {folder}"
        (extras,) = set(re.findall(r"phyai_ros\[([\w,]+)\]", text))
        setup = (ROOT / "setup.cfg").read_text().partition("[options.extras_require]")[2]
        assert set(extras.split(",")) <= set(re.findall(r"^(\w+) =$", setup, re.MULTILINE))
