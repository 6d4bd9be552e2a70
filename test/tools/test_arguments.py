# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.nodes import arguments
from phyai_ros.nodes.arguments import Argument, ArgumentError

ARGUMENTS = (
    Argument("robot", "ur10e", "robot", known="robots"),
    Argument("sim", False, "simulate"),
    Argument("device", "cpu", "where", choices=("cpu", "cuda")),
    Argument("instruction", "", "words"),
    Argument("seed", 0, "seed", low=0, high=2**31),
    Argument("speed", 0.0, "m/s", low=0.0, high=1.0),
)


def parse(*words):
    return arguments.parse(ARGUMENTS, arguments.split(words))


def test_defaults_fill_what_is_not_given():
    assert parse() == {
        "robot": "ur10e",
        "sim": False,
        "device": "cpu",
        "instruction": "",
        "seed": 0,
        "speed": 0.0,
    }


def test_values_have_the_type_of_their_default():
    values = parse("sim:=True", "seed:=7", "speed:=1", "device:=cuda")
    assert (values["sim"], values["seed"], values["speed"]) == (True, 7, 1.0)
    assert type(values["speed"]) is float


def test_an_instruction_is_kept_to_the_letter():
    for text in ("reach := red", "true", "7", "", "no: yes [x] {y} 'z' \"", "积木"):
        assert parse(f"instruction:={text}")["instruction"] == text


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("sim:=maybe", ["sim", "'maybe'", "true or false"]),
        ("seed:=1.5", ["seed", "'1.5'", "whole number from 0 to 2147483648"]),
        ("seed:=-1", ["seed", "'-1'"]),
        ("speed:=nan", ["speed", "'nan'", "from 0 to 1"]),
        ("speed:=1e9", ["speed", "from 0 to 1"]),
        ("device:=tpu", ["device", "'tpu'", "cpu, cuda"]),
        ("robot:=r2d2", ["robot", "r2d2", "ur10e"]),
        ("robot:=no/such.yaml", ["robot", "no/such.yaml", "ur10e"]),
        ("sed:=1", ["'sed'", "did you mean seed?", "robot, sim, device"]),
        ("seed=1", ["'seed=1'", "name:=value"]),
        ("--seed", ["'--seed'", "name:=value"]),
        (":=1", ["name:=value"]),
    ],
)
def test_a_refusal_names_what_was_given_and_what_exists(word, parts):
    with pytest.raises(ArgumentError) as error:
        parse(word)
    for part in parts:
        assert part in str(error.value)


def test_an_argument_given_twice_is_refused():
    with pytest.raises(ArgumentError, match="seed is given twice: '1' and '2'"):
        parse("seed:=1", "seed:=2")


@given(st.integers(0, 2**31), st.floats(0, 1), st.booleans())
def test_a_default_written_as_text_reads_back_as_itself(seed, speed, sim):
    for name, value in (("seed", seed), ("speed", speed), ("sim", sim)):
        argument = Argument(name, value, "", low=0, high=2**31)
        assert argument.parse(argument.text()) == value


def test_closed_sets_are_told_to_launch():
    by_name = {a.name: a.closed_set() for a in ARGUMENTS}
    assert by_name["device"] == ["cpu", "cuda"]
    assert "true" in by_name["sim"]
    assert "True" in by_name["sim"]
    assert by_name["robot"] is None, "a path may be given"
