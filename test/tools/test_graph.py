# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import sys

import pytest

from phyai_ros.nodes import graph
from phyai_ros.nodes.arguments import ArgumentError
from phyai_ros.robots import config_files


def nodes(**given):
    return {spec.name: spec for spec in graph.nodes(graph.parse(given))}


def test_every_parameter_is_one_that_its_node_declares():
    from phyai_ros.nodes import handoff_node, overlay_node, policy_node, sim_node

    declared = {
        "overlay_node": overlay_node.PARAMETERS,
        "sim_node": sim_node.PARAMETERS,
        "policy_node": policy_node.PARAMETERS,
        "handoff_node": handoff_node.PARAMETERS,
    }
    made = nodes(sim="true", overlay="true")
    assert set(made) == set(declared)
    for spec in made.values():
        known = {parameter.name: parameter for parameter in declared[spec.name]}
        for name, value in spec.parameters.items():
            if name != "use_sim_time":  # every node has it
                assert name in known, f"{spec.name} has no parameter {name}"
                known[name].check(value)


@pytest.mark.parametrize(("asked", "given"), [("0", 8), ("4", 4), ("-1", 0)])
def test_the_execution_horizon_is_the_models_the_users_or_measured(asked, given):
    """0 at the node: from the measured delay."""
    assert nodes(execution_horizon=asked)["handoff_node"].parameters["execution_horizon"] == given


@pytest.mark.parametrize("name", ["lab/arm-policy", "lab/arm-policy@v1"])
def test_a_hub_id_reaches_the_hubs_client_as_it_was_given(name, monkeypatch):
    """From the launch line to the node's parameter, and from there to the download."""
    from phyai_ros.engine import hub
    from phyai_ros.nodes import model_file

    asked = []
    monkeypatch.setattr(hub, "snapshot_download", lambda *a, **k: asked.append((a, k)) or "/there")
    given = nodes(checkpoint=name)["policy_node"].parameters["checkpoint"]
    _, source = model_file.load("gr00t")
    hub.resolve(model_file.checkpoint_path(given, source))
    ((words, options),) = asked
    assert words == ("lab/arm-policy",)
    assert options["revision"] == ("v1" if "@" in name else None)
    assert not any(pattern.endswith((".bin", ".pt")) for pattern in options["allow_patterns"])


def test_both_ends_of_a_handoff_know_its_method():
    made = nodes(handoff="rtc_identity")
    assert made["policy_node"].parameters["handoff"] == "rtc_identity"
    assert made["handoff_node"].parameters["handoff"] == "rtc_identity"


def test_the_simulator_is_there_only_when_asked_for():
    assert set(nodes()) == {"policy_node", "handoff_node"}
    assert set(nodes(sim="true")) == {"sim_node", "policy_node", "handoff_node"}


def test_an_overlay_of_a_robot_whose_tools_are_unknown_is_refused_before_anything_starts(tmp_path):
    """A YAML of before there were tools: without the overlay it goes on working."""
    source = (config_files.find("robots", "ur10e")).read_text()
    text = re.sub(r"(?ms)^# Where the tool is.*?(?=^output:)", "", source)
    text = re.sub(r"(?m)^ +mount:.*\n(?: {6,}.*\n)*", "", text)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert "overlay_node" not in nodes(robot=str(path))
    with pytest.raises(ArgumentError, match=r"mine\.yaml: tools: missing"):
        nodes(robot=str(path), overlay="true")


def test_the_simulator_is_the_clock_and_follows_none():
    sim = nodes(sim="true", use_sim_time="true")
    assert sim["sim_node"].parameters["publish_clock"] is True
    assert sim["sim_node"].parameters["use_sim_time"] is False
    assert sim["handoff_node"].parameters["use_sim_time"] is True


def test_simulated_commands_stay_on_this_host():
    sim = graph.environment(graph.parse({"sim": "true"}))
    real = graph.environment(graph.parse({"sim": "false"}))
    assert sim["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert "ROS_AUTOMATIC_DISCOVERY_RANGE" not in real
    assert sim["FASTDDS_DEFAULT_PROFILES_FILE"].endswith("config/fastdds.xml")


def test_the_models_yaml_gives_the_execution_horizon_unless_the_user_does(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("{family: gr00t_n17, checkpoint: somewhere, execution_horizon: 5}")
    assert nodes(model=str(own))["handoff_node"].parameters["execution_horizon"] == 5
    given = nodes(model=str(own), execution_horizon="3")
    assert given["handoff_node"].parameters["execution_horizon"] == 3


def test_a_broken_robot_file_is_named(tmp_path):
    robot = tmp_path / "arm.yaml"
    robot.write_text("{name: arm, control_rate: -1}")
    with pytest.raises(ArgumentError) as error:
        nodes(robot=str(robot))
    assert str(robot) in str(error.value)
    assert "control_rate" in str(error.value)


def test_the_graph_needs_neither_ros_nor_torch():
    code = (
        "import sys; from phyai_ros.nodes import graph; graph.nodes(graph.parse({}));"
        "sys.exit(', '.join({'rclpy', 'torch'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
