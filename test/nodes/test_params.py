# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Parameters: typed, bounded, described; a refusal names value and allowed set."""

from __future__ import annotations

import math

import pytest
import rclpy
from rclpy.context import Context

from phyai_ros.nodes.params import Parameter, ParameterError, declare, read, unknown

RATE = Parameter("rate", 100.0, "control rate, Hz", low=1.0, high=1000.0)
THREADS = Parameter("threads", 0, "CPU threads", low=0, high=64)
PRECISION = Parameter("precision", "float32", "weights", choices=("float32", "bfloat16"))
AUTOSTART = Parameter("autostart", True, "start by itself")
ALL = (RATE, THREADS, PRECISION, AUTOSTART)


def node_with(context: Context, *arguments: str):
    cli = ["--ros-args"]
    for argument in arguments:
        cli += ["-p", argument]
    return rclpy.create_node("params_test", context=context, cli_args=cli)


def test_defaults_and_overrides_come_back_typed(ros):
    node = node_with(ros, "rate:=250.5", "precision:=bfloat16", "autostart:=false")
    declare(node, ALL)
    values = read(node, ALL)
    assert vars(values) == {
        "rate": 250.5,
        "threads": 0,
        "precision": "bfloat16",
        "autostart": False,
    }
    node.destroy_node()


def test_a_whole_number_is_fine_where_a_real_one_is_wanted(ros):
    node = node_with(ros, "rate:=100")
    declare(node, ALL)
    assert read(node, ALL).rate == 100.0
    node.destroy_node()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("rate:=0", "'rate' is 0.0; allowed: float from 1 to 1000"),
        ("rate:=2000.0", "'rate' is 2000.0; allowed: float from 1 to 1000"),
        ("rate:=fast", "'rate' is 'fast'; allowed: float from 1 to 1000"),
        ("threads:=65", "'threads' is 65; allowed: int from 0 to 64"),
        ("threads:=1.5", "'threads' is 1.5; allowed: int from 0 to 64"),
        ("precision:=int4", "'precision' is 'int4'; allowed: one of 'float32', 'bfloat16'"),
        ("autostart:=1", "'autostart' is 1; allowed: any bool"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(ros, override, says):
    node = node_with(ros, override)

    def configure() -> None:
        declare(node, ALL)
        read(node, ALL)

    with pytest.raises(ParameterError) as refusal:
        configure()
    assert says in str(refusal.value)
    node.destroy_node()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_must_be_finite(value):
    with pytest.raises(ParameterError, match="'free'"):
        Parameter("free", 1.0, "unbounded").check(value)


def test_described_and_immutable(ros):
    node = node_with(ros)
    declare(node, ALL)
    descriptor = node.describe_parameter("rate")
    assert descriptor.description == "control rate, Hz"
    assert descriptor.floating_point_range[0].to_value == 1000.0
    assert "'bfloat16'" in node.describe_parameter("precision").additional_constraints
    result = node.set_parameters([rclpy.Parameter("threads", value=3)])[0]
    assert not result.successful
    assert read(node, ALL).threads == 0
    node.destroy_node()


def test_mistyped_names_are_found(ros):
    node = node_with(ros, "thread:=3", "use_sim_time:=false")
    declare(node, ALL)
    assert unknown(node, ALL) == ("thread",)
    node.destroy_node()
