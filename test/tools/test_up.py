# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros up`` end to end: a run, and everything that can end or break one."""

import os
import signal
import time

import pytest
import yaml
from up_rig import Up, Watcher

from phyai_ros.control import methods
from phyai_ros.msg import HandoffState
from phyai_ros.tools import up

DOMAIN = 53
RUN = ("sim:=true", "instruction:=reach the red block")


@pytest.fixture
def watcher():
    watcher = Watcher(DOMAIN)
    yield watcher
    watcher.close()


def start(tmp_path, *words):
    return Up(tmp_path / "run", DOMAIN, *words)


def test_two_episodes_end_with_a_report_and_pictures(tmp_path):
    with start(tmp_path, *RUN, "episodes:=2", "seed:=5") as run:
        assert run.finish() == 0, run.text()
    report = run.report()
    assert [e["seed"] for e in report["episodes"]] == [5, 6]
    assert all(e["instruction"] == "reach the red block" for e in report["episodes"])
    assert report["problems"] == []
    assert report["chunks"]["used"] > 0
    for picture in ("timeline.png", "filmstrip.png"):
        assert (run.run_dir / picture).read_bytes().startswith(b"\x89PNG")
    assert "\x1b[" not in run.text(), "no terminal: no colours and no progress line"


def test_ctrl_c_while_the_arm_moves_stops_everything(tmp_path, watcher):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.text()
    assert "stopped by SIGINT" in " ".join(run.report()["problems"])
    assert "Traceback" not in run.text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_last_command_of_a_stopped_run_is_at_rest(tmp_path, watcher, number):
    with start(tmp_path, *RUN) as run:
        watcher.wait_for(run, lambda s: watcher.moving() > 0.3, "an arm that moves fast")
        run.process.send_signal(number)
        run.finish()
    watcher.hear_the_rest()
    assert watcher.wrong == []
    assert watcher.moving() == 0.0, watcher.commands[-3:]


@pytest.mark.parametrize("delay", [0.2, 0.6, 1.2, 2.5])
def test_ctrl_c_while_starting_leaves_nothing(tmp_path, delay):
    # The delays fall into imports, process start, discovery and model load; whichever it is, the
    # outcome is the same, so a slow machine changes nothing.
    with start(tmp_path, *RUN) as run:
        time.sleep(delay)
        run.process.send_signal(signal.SIGINT)
        # Before any of this package's code, the interpreter says it in its own way.
        early = run.finish() == 1 and "Fatal Python error: init_" in run.text()
        assert early or run.finish() in (130, -signal.SIGINT), run.text()


@pytest.mark.slow
def test_termination_and_hangup_stop_everything(tmp_path, watcher):
    for number in (signal.SIGTERM, signal.SIGHUP):
        with start(tmp_path, *RUN) as run:
            watcher.wait_until_executing(run)
            run.process.send_signal(number)
            assert run.finish() == 128 + number, run.text()


@pytest.mark.slow
def test_a_second_system_in_the_domain_is_refused_and_the_first_goes_on(tmp_path, watcher):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        (tmp_path / "second").mkdir()
        with Up(tmp_path / "second" / "run", DOMAIN, *RUN) as second:
            assert second.finish() == 1, second.text()
        (line,) = second.text().splitlines()
        assert f"another system runs in ROS domain {DOMAIN}: " in line
        assert "handoff_node says its state" in line  # its name, where that is known in time
        assert not second.run_dir.exists()
        watcher.wait_until_executing(run)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.text()
    assert len(run.report()["problems"]) == 1, "anything but the Ctrl-C"


def test_a_persons_hold_outlasts_the_episode(tmp_path, watcher):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        watcher.call(run, "handoff_node/hold")
        told = "next episode does not begin: held by service"
        watcher.wait_for(run, lambda s: told in run.text(), "the episode")
        heard = len(watcher.states)
        watcher.wait_for(run, lambda s: len(watcher.states) > heard + 40, "two seconds of states")
        assert {s.state for s in watcher.states[heard:]} == {HandoffState.HOLDING}
        watcher.call(run, "handoff_node/resume")
        watcher.wait_until_executing(run)
        run.process.send_signal(signal.SIGINT)
        run.finish()


def test_a_killed_up_takes_its_nodes_along(tmp_path, watcher):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        run.process.kill()
        run.process.wait()
        run.wait_for(lambda: not run.nodes(), "the end of the nodes")


@pytest.mark.parametrize("victim", ["policy_node", "handoff_node"])
def test_a_killed_node_comes_back_and_the_arm_goes_on(tmp_path, watcher, victim):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        before = run.nodes()[victim]
        os.kill(before, signal.SIGKILL)
        idle = (HandoffState.WAITING, HandoffState.STARVED, HandoffState.HOLDING)

        def paused(state):  # heard all the time: it may be over before the restart is seen
            return state.state in idle and run.nodes().get(victim, before) != before

        watcher.wait_for(run, paused, "a restart, and a pause")
        watcher.wait_until_executing(run)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130
    (restart,) = run.report()["restarts"]
    assert restart["process"] == victim
    assert restart["not_driven"] > 0
    (line,) = [p for p in run.report()["problems"] if victim in p]
    assert "was killed by SIGKILL at" in line
    assert "no chunk drove the arm for" in line
    assert f"[{victim}] was killed by SIGKILL; starting it again" in run.text()


@pytest.mark.slow
def test_the_handoff_holds_and_says_so_while_the_policy_is_gone(tmp_path, watcher):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        os.kill(run.nodes()["policy_node"], signal.SIGKILL)
        idle = (HandoffState.STARVED, HandoffState.HOLDING)
        watcher.wait_for(run, lambda s: s.state in idle and s.reason, "a named safe state")
        watcher.wait_until_executing(run)


def test_a_killed_simulator_ends_the_run(tmp_path, watcher):
    with start(tmp_path, *RUN) as run:
        watcher.wait_until_executing(run)
        os.kill(run.nodes()["sim_node"], signal.SIGKILL)
        assert run.finish() == 1
    assert "sim_node was killed by SIGKILL; everything is stopped" in run.text()
    assert run.report()["problems"] == ["sim_node was killed by SIGKILL"]


@pytest.mark.slow
def test_a_recovered_crash_makes_the_exit_status_1(tmp_path, watcher):
    with start(tmp_path, *RUN, "episodes:=1") as run:
        watcher.wait_until_executing(run)
        os.kill(run.nodes()["policy_node"], signal.SIGKILL)
        assert run.finish() == 1, run.text()
    assert run.report()["episodes"][0]["finished"]


@pytest.mark.parametrize(
    ("words", "status", "parts"),
    [
        (["model:=nothing"], 2, ["nothing", "gr00t"]),
        (["robot:=r2d2"], 2, ["r2d2", "ur10e"]),
        (["instrction:=x"], 2, ["'instrction'", "did you mean instruction?"]),
        (["device:=tpu"], 2, ["'tpu'", "cpu, cuda, auto"]),
        (["dry_run:=true", "episodes:=2"], 2, ["episodes:=2", "dry_run:=true"]),
        (["checkpoint:=/no/such/folder"], 2, ["/no/such/folder", "gr00t_ur10e_small"]),
        (["embodiment:=toaster"], 2, ["toaster", "ur10e_sim"]),
        (["model:=act"], 2, ["act.yaml", "ur10e.yaml", "cam_high", "left_waist", "robot:=aloha"]),
    ],
)
def test_what_cannot_run_is_refused_with_what_exists(tmp_path, words, status, parts):
    with start(tmp_path, *RUN, *words) as run:
        assert run.finish() == status, run.text()
    for part in parts:
        assert part in run.text()
    assert "Traceback" not in run.text()
    assert not run.run_dir.exists()  # no process was started


def test_episodes_of_a_real_robot_are_refused(capsys):
    assert up.main(["episodes:=2"]) == 2
    assert "episodes:=2 with sim:=false" in capsys.readouterr().err


def test_cuda_without_a_gpu_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with start(tmp_path, *RUN, "device:=cuda") as run:
        assert run.finish() == 1
    assert run.text().count("configure failed") == 1
    assert "policy_node ended with status 1" in run.text().splitlines()[-1]
    report = run.report()
    assert "cuda" in report["cause"]
    assert report["problems"] == ["policy_node ended with status 1"]
    assert "Traceback" not in run.text()


def test_a_run_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "run").write_text("a file")
    with start(tmp_path, *RUN) as run:
        assert run.finish() == 2
    assert f"out:={tmp_path / 'run'}: no folder" in run.text()
    assert "in, a file" in run.text()


def test_help_lists_every_argument_with_its_default(capsys):
    assert up.main(["--show-args"]) == 0
    text = capsys.readouterr().out
    for word in ("model:=gr00t", "episodes:=0", "one of " + ", ".join(methods.NAMES), "examples:"):
        assert word in text


def test_the_users_own_middleware_settings_are_kept(tmp_path, monkeypatch):
    from phyai_ros.nodes import graph

    values = graph.parse({"sim": "true"})
    monkeypatch.setenv("FASTDDS_DEFAULT_PROFILES_FILE", "/mine.xml")
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE", raising=False)
    for command in up.make_commands(graph.nodes(values), graph.environment(values), tmp_path):
        assert command.environment["FASTDDS_DEFAULT_PROFILES_FILE"] == "/mine.xml"
        assert command.environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"


def test_parameters_reach_a_node_as_they_were_typed(tmp_path):
    from phyai_ros.nodes import graph

    values = graph.parse({"instruction": "no", "seed": "7", "sim": "true"})
    up.make_commands(graph.nodes(values), {}, tmp_path)
    content = yaml.safe_load((tmp_path / "logs" / "policy_node.yaml").read_text())
    parameters = content["policy_node"]["ros__parameters"]
    assert (parameters["instruction"], parameters["seed"]) == ("no", 7)
