# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A real run through DDS into a bag, and out of it again: the same chunks, bit for bit."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from phyai_ros.bags.reader import Bag
from phyai_ros.replay.result import load

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "phyai_ros" / "checkpoints" / "gr00t_ur10e_small"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
DOMAIN = 52
PATIENCE = 180.0
ENOUGH = 8
"""Chunks that the live run shall give."""


def tool(*words, domain=DOMAIN, **options):
    environment = dict(os.environ, ROS_DOMAIN_ID=str(domain), OMP_NUM_THREADS="1")
    environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    command = [sys.executable, "-m", "phyai_ros.tools", *map(str, words)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
        **options,
    )  # fmt: skip


def chunks_in(bag):
    """Chunks in a bag that is being written, by its metadata."""
    with contextlib.suppress(OSError):
        told = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
        for topic in told["topics_with_message_count"]:
            if topic["topic_metadata"]["name"] == "/phyai/chunk":
                return topic["message_count"]
    return 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(bag, what the recorder printed) of a simulated run, recorded from another process."""
    return record(tmp_path_factory.mktemp("run"), "ur10e", "mcap")


def record(folder, robot, storage):
    bag = folder / "bag"
    log = (folder / "up.txt").open("w")
    recorder = tool(
        "record", "--robot", robot, "--out", bag, "--storage", storage,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    run = tool(
        "up", "model:=gr00t", f"robot:={robot}", "sim:=true", "instruction:=reach the red block",
        f"out:={folder / 'run'}", stdout=log, stderr=log,
    )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE
        while chunks_in(bag) < ENOUGH:
            assert time.monotonic() < end, (folder / "up.txt").read_text()
            assert run.poll() is None, (folder / "up.txt").read_text()
            time.sleep(0.5)
        recorder.send_signal(signal.SIGINT)
        told, _ = recorder.communicate(timeout=30)
        assert recorder.returncode == 0, told
    finally:
        for process in (run, recorder):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()
    return bag, told


def test_the_recorder_says_what_it_has(recorded):
    bag, told = recorded
    with Bag(bag) as opened:
        assert opened.note == ""
        for topic in (
            "/camera/scene/image_raw", "/camera/wrist/image_raw", "/joint_states", "/instruction",
            "/phyai/request", "/phyai/chunk", "/phyai/handoff_state",
            "/forward_position_controller/commands",
        ):  # fmt: skip
            count = opened.topics[topic].count
            assert count > 0
            assert f"{topic}: {count}" in told
            assert opened.topics[topic].qos, f"{topic}: what was offered is recorded"
    assert "dropped" not in told


def test_live_chunks_equal_the_replays_bit_for_bit(recorded, tmp_path):
    bag, _ = recorded
    replay = tool(
        "replay", bag, "--checkpoint", CHECKPOINT, "--robot", "ur10e", "--live", "--json", "-",
        "--out", tmp_path / "out.npz", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    told, said = replay.communicate(timeout=PATIENCE)
    assert replay.returncode == 0, said
    live = json.loads(told)["live"]
    assert live["chunks"] >= ENOUGH
    assert live["identical_chunks"] == live["chunks"]
    assert live["identical_commands"] > 0


def test_every_output_is_recorded_replayed_and_compared(tmp_path):
    """An arm that is sent trajectories and a gripper with a controller of its own, into SQLite."""
    robot, gripper = tmp_path / "arm.yaml", "/gripper_controller/commands"
    robot.write_text(
        "extends: ur10e_driver\n"
        f"gripper_output: {{type: forward_command, topic: {gripper}, joints: [finger_joint]}}\n"
        "ready: {}\nspeed_scaling: null\nname: ur10e\n"
    )
    bag, told = record(tmp_path, str(robot), "sqlite3")
    for topic in (gripper, "/scaled_joint_trajectory_controller/joint_trajectory"):
        assert f"{topic}: " in told
    replay = tool(
        "replay", bag, "--checkpoint", CHECKPOINT, "--robot", robot, "--live", "--json", "-",
        "--out", tmp_path / "out.npz", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    said = replay.communicate(timeout=PATIENCE)
    assert replay.returncode == 0, said
    live = json.loads(said[0])["live"]
    assert live["identical_chunks"] == live["chunks"] >= ENOUGH
    assert live["commands"] > live["identical_commands"] // 2 > 10
    sent = load(tmp_path / "out.npz")["live_command"]
    assert (~np.isnan(sent)).all(axis=1).sum() > 10, "both outputs, tick by tick"


def test_play_publishes_the_bags_sensors_and_nothing_that_moves_an_arm(recorded, tmp_path):
    """Recorded again from what play publishes: the same bytes, in the same order."""
    bag, _ = recorded
    again = tmp_path / "again"
    recorder = tool(
        "record", "--robot", "ur10e", "--out", again, domain=DOMAIN + 1, stdout=subprocess.DEVNULL
    )
    try:
        words = ("--delay", "3", "--duration", "5")
        player = tool("play", bag, *words, domain=DOMAIN + 1, stderr=subprocess.PIPE)
        _, said = player.communicate(timeout=PATIENCE)
        assert player.returncode == 0, said
        time.sleep(1.0)
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(30) == 0
    finally:
        for process in (recorder, player):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    sensors = {"/camera/scene/image_raw", "/camera/wrist/image_raw", "/joint_states"}
    with Bag(bag) as old, Bag(again) as new:
        published = {name for name, topic in new.topics.items() if topic.count}
        published.discard("/diagnostics")  # the recorder's own
        assert published == {*sensors, "/instruction", "/clock"}
        for topic in (*sensors, "/instruction"):
            messages = list(old.messages({topic}))
            start = next(old.messages({*sensors, "/instruction"})).time_ns
            sent = [m.data for m in messages if m.time_ns < start + 5 * 10**9]
            came = [m.data for m in new.messages({topic})]
            # Best effort: some may be lost, none changed and none out of order.
            places = [sent.index(data) for data in came]
            assert places == sorted(places)
            assert len(came) >= min(1, len(sent)), topic
