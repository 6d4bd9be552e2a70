# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A robot's YAML from anybody: a robot that can be trusted, or a RobotError that names the file."""

import math

import pytest
import yaml
from fuzzing import LONGEST_MESSAGE, altered, damaged, fuzz, outcome
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros import robots
from phyai_ros.nodes import model_file
from phyai_ros.robots import RobotError, config_files, yaml_file

UR10E = config_files.find("robots", "ur10e").read_text()
GR00T = config_files.find("models", "gr00t").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("robots")


def load_or_refuse(file, text):
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    robot, refusal = outcome(RobotError, lambda: robots.load(str(file)))
    if robot is None:
        assert str(file) in refusal
        return
    limits = robot.limits()
    assert (limits.lower < limits.upper).all()
    assert (limits.velocity > 0).all()
    assert math.isfinite(robot.period)
    assert robot.period > 0


@fuzz
@given(st.data())
def test_any_value_at_any_place(folder, data):
    content = data.draw(altered(yaml.safe_load(UR10E)))
    load_or_refuse(folder / "altered.yaml", yaml.safe_dump(content))


@fuzz
@given(st.data())
def test_any_damage_to_the_text(folder, data):
    load_or_refuse(folder / "damaged.yaml", data.draw(damaged(UR10E.encode())))


@fuzz
@given(st.text(max_size=200))
def test_any_text(folder, text):
    load_or_refuse(folder / "text.yaml", text.encode("utf-8", "surrogatepass"))


@fuzz
@given(st.data())
def test_any_value_in_a_models_yaml(folder, data):
    file = folder / "model.yaml"
    file.write_text(yaml.safe_dump(data.draw(altered(yaml.safe_load(GR00T)))))

    def load():
        model, source = model_file.load(str(file))
        return model_file.robot_part(model, "ur10e", source)

    part, refusal = outcome(RobotError, load)
    assert part is not None or str(file) in refusal


BOMB = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (BOMB, "alias"),
        ("a: &a [*a]\n", "levels"),
        ("extends: ur10e\njoints: &j {elbow_joint: *j}\n", "levels"),
        ("name: " + "[" * 4000 + "]" * 4000 + "\n", "levels"),
        ("name: " + "{a: " * 2000 + "1" + "}" * 2000 + "\n", "levels"),
        ("name: " + "x" * 300_000 + "\n", "bytes"),
        ("control_rate: " + "1" * 5000 + "\n", "digits"),
        ("name: !!python/object/apply:os.system ['true']\n", "python/object"),
        ("name: !!python/name:os.system\n", "python/name"),
        ("name: !!int foo\n", "foo"),
        ("? [a, b]\n: 1\n", "plain word"),
        ("extends: " + "x" * 5000 + "\n", "characters"),
        ("extends: ur10e\ncontrol_rate: true\n", "control_rate: expected a number"),
        ("extends: ur10e\ncontrol_rate: 1:30\n", "control_rate"),
        ("extends: ur10e\ncontrol_rate: no\n", "control_rate"),
        ("a: 1\na: 2\n", "given twice"),
        ("\tname: x\n", "line 1"),
    ],
)
def test_known_traps_are_refused_by_name(folder, text, word):
    file = folder / "trap.yaml"
    file.write_text(text)
    with pytest.raises(RobotError, match=word) as refusal:
        robots.load(str(file))
    assert str(file) in str(refusal.value)
    assert len(str(refusal.value)) < LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("text", "value"),
    [("010", 10), ("0.5", 0.5), ("1e3", 1000.0), ("-7", -7), ("1:30", "1:30"), ("no", "no"),
     ("2001-12-14", "2001-12-14"), ("true", True), ("~", None), (".inf", math.inf)],
)  # fmt: skip
def test_plain_words_are_what_they_look_like(folder, text, value):
    file = folder / "word.yaml"
    file.write_text(f"a: {text}\n")
    found = yaml_file.read_yaml(file)["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "~nobody/x.yaml", "", "..", "/", "\0.yaml"])
def test_names_that_are_none_are_refused(name):
    with pytest.raises(RobotError):
        robots.load(name)
