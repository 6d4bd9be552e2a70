# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import dataclasses
import importlib.util
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from phyai_ros.control.states import State
from phyai_ros.nodes import outlets
from phyai_ros.robots.robot import Robot
from phyai_ros.tools import filmstrip, monitor, plots, report, report_table
from phyai_ros.tools.progress import Progress, line
from phyai_ros.tools.recording import ChunkSeen, Episode, Frame, Recording, Tick

_spec = importlib.util.spec_from_file_location(
    "rehearsal", Path(__file__).with_name("rehearsal.py")
)
rehearsal = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rehearsal)


@pytest.fixture(scope="module")
def rehearsed():
    return rehearsal.rehearse(episodes=2)


WAY = (outlets.forward("/commands", ("a",)),)
JOINT = {"position": [-1.0, 1.0], "velocity": 1.0, "acceleration": 1.0}
TWO_OUTPUTS = Robot(
    name="two",
    control_rate=20.0,
    joints={"arm": JOINT, "grip": JOINT},
    joint_state_topics=["/joint_states"],
    cameras={"scene": {"topic": "/camera"}},
    output={"type": "joint_trajectory", "topic": "/arm/joint_trajectory"},
    gripper_output={"topic": "/gripper/commands", "joints": ["grip"]},
)


def tick(time, **changes):
    values = {
        "state": State.EXECUTING, "request_id": 1, "epoch": 1, "index": 0, "remaining": 5,
        "expected_delay": 2, "measured_delay": 2, "missed_ticks": 0, "starved_ticks": 0,
        "limited_ticks": 0, "late_chunks": 0, "dropped_chunks": 0, "action_age": 0.1,
        "jitter": 0.0, "deliver": math.nan,
    }  # fmt: skip
    return Tick(time, time + 0.002, **{**values, **changes})


def test_numbers_of_a_rehearsed_run(rehearsed):
    numbers = report.build(rehearsed, {"model": "expert"})
    assert json.loads(json.dumps(numbers)) == numbers
    assert numbers["model"] == "expert"
    assert numbers["success"]["count"] == numbers["success"]["of"] == 2
    assert numbers["success"]["wilson_95"][0] == pytest.approx(0.342, abs=1e-3)
    assert [e["seed"] for e in numbers["episodes"]] == [0, 1]
    assert numbers["inference"]["p50"] == pytest.approx(0.049)
    assert numbers["stages"]["vision"]["p99"] == pytest.approx(0.018)
    assert numbers["stages"]["deliver"]["p50"] == pytest.approx(0.004)
    assert numbers["ticks"]["starved"] == numbers["ticks"]["deadline_misses"] == 0
    assert numbers["ticks"]["total"] == len(rehearsed.ticks)
    assert numbers["chunks"]["delay_ticks"]["p50"] == 2
    # Two ticks old when first used, and replaced after eight more rows.
    assert numbers["action_age"]["first"] == pytest.approx(0.1, abs=0.03)
    assert numbers["action_age"]["last"] == pytest.approx(0.4, abs=0.1)
    assert 0 < numbers["jerk"]["interior"] < 0.05
    assert numbers["real_time_factor"] == {"mean": 0.9995, "lowest": 0.999}


def test_lost_answers_show_as_starved_ticks():
    recording = rehearsal.rehearse(1, frames=False, time_limit=3.0, lost=tuple(range(3, 99)))
    numbers = report.build(recording, {})
    assert numbers["ticks"]["starved"] > 0
    assert numbers["ticks"]["acting"] < numbers["ticks"]["total"]


def test_a_run_without_anything_still_reports():
    numbers = report.build(Recording(problems=["no command in 120 s"]), {})
    assert numbers["success"] is None
    assert numbers["inference"]["p50"] is None
    assert numbers["jerk"]["boundary"] is None
    assert shown(numbers).count("no command in 120 s") == 1


def test_failed_and_unfinished_episodes_are_told_apart():
    recording = Recording(
        episodes=[
            Episode({"seed": 1, "success": True, "seconds": 2.0, "distance": 0.01}, 0.0, 2.0),
            Episode({"seed": 2, "success": False, "seconds": 10.0, "distance": 0.2}, 2.0, 12.0),
            Episode({"seed": 3}, 12.0),
        ]
    )
    numbers = report.build(recording, {})
    assert (numbers["success"]["count"], numbers["success"]["of"]) == (1, 2)
    assert [e["finished"] for e in numbers["episodes"]] == [True, True, False]
    text = shown(numbers)
    assert "1 of 2 succeeded" in text
    assert "unfinished" in text
    assert "200 mm" in text


def test_counters_of_a_restarted_handoff_add_up():
    counts = [3, 5, 5, 0, 2]
    recording = Recording(ticks=[tick(0.05 * i, missed_ticks=n) for i, n in enumerate(counts)])
    assert report.build(recording, {})["ticks"]["deadline_misses"] == 4


def test_chunks_add_up_and_request_ids_that_begin_again_are_other_chunks():
    uses = [(1, 1), (1, 1), (1, 2), (1, 4), (1, 1), (1, 2)]  # the handoff restarted before the 5th
    recording = Recording(
        ticks=[
            tick(0.05 * i, epoch=e, request_id=n, late_chunks=min(i, 1), dropped_chunks=i // 3)
            for i, (e, n) in enumerate(uses)
        ],
        chunks=[ChunkSeen(1.0 + i, 0.9 + i, i, 1, 16, {}) for i in range(8)],
    )
    numbers = report.build(recording, {})
    chunks = numbers["chunks"]
    assert chunks["used"] == 5
    assert (chunks["received"], chunks["dropped"], chunks["unused"], chunks["late"]) == (8, 1, 2, 1)
    text = shown(numbers)
    assert "8 = 5 + 1 + 2" in text
    assert "2nd difference (boundary / inside), mrad/tick²" in text


def test_a_run_longer_than_asked_says_why():
    recording = Recording(
        ticks=[tick(0.05 * i) for i in range(4)],
        episodes=[Episode({"seed": 1, "success": True}, 0.0, 2.0)],
        ran=32.1,
    )
    text = shown(report.build(recording, {"asked": {"duration": 30.0, "episodes": None}}))
    assert "asked 30 s, ran 32.1 s: the last episode was finished" in text
    recording.ran = 30.1
    text = shown(report.build(recording, {"asked": {"duration": 30.0, "episodes": None}}))
    assert "asked 30 s" not in text


def test_camera_sets_that_were_skipped_have_a_denominator():
    values = {"sets published": "300", "sets dropped": "100", "render and publish p50 s": "0.062"}
    recording = Recording(ticks=[tick(0.0)], diagnostics={"sim_node: cameras": values})
    numbers = report.build(recording, {})
    assert numbers["camera_sets"] == {"published": 300, "dropped": 100, "render": 0.062}
    assert "100 of 400 (25 %)" in shown(numbers)
    assert numbers["drops"]["sim_node: cameras: sets dropped"] == (
        "100 of 400 (25 %) skipped, the newest is drawn; drawing one takes 62 ms (p50) beside the "
        "inference"
    )


def test_no_film_of_a_run_in_which_nothing_acted(tmp_path):
    picture = np.full((90, 50, 3), 200, np.uint8)
    recording = Recording(
        ("a",), [tick(0.0, state=State.WAITING)], frames=[Frame(0.0, {"f": picture})]
    )
    monitor.write(monitor.Run(tmp_path, sim=False), recording, Console(file=io.StringIO()))
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_disk_that_is_full_costs_the_files_and_not_the_tables(tmp_path):
    out = io.StringIO()
    console = Console(file=out, width=200)
    recording = Recording(("a",), [tick(0.0, state=State.WAITING)], problems=["seen"])
    (tmp_path / "report.json").symlink_to("/dev/full")
    assert not monitor.write(monitor.Run(tmp_path, sim=False), recording, console)
    assert "report.json not written: No space left on device" in out.getvalue()
    assert "problem seen" in out.getvalue()


def test_a_family_without_a_stage_still_has_an_inference_time():
    stages = {"wait": 0.01, "preprocess": 0.002, "vision": math.nan, "prefix": math.nan,
              "solver": 0.02, "convert": 0.001}  # fmt: skip
    recording = Recording(chunks=[ChunkSeen(1.0, 0.9, 1, 1, 16, stages)])
    numbers = report.build(recording, {})
    assert numbers["inference"]["p50"] == pytest.approx(0.023)
    assert numbers["stages"]["vision"]["p50"] is None


def test_commands_go_to_the_tick_that_sent_them():
    ticks = [
        tick(0.00, request_id=7),
        tick(0.05, state=State.HOLDING),
        tick(0.10, request_id=8),
    ]
    commands = [(0.001, np.array([[1.0]])), (0.051, np.array([[2.0]])), (0.101, np.array([[3.0]]))]
    recording = Recording(("a",), ticks, [commands], ways=WAY)
    values, behind = recording.commanded()
    assert values.ravel().tolist() == [1.0, 3.0]
    assert [t.request_id for t in behind] == [7, 8]
    del commands[2]  # lost on the way to the listener: the tick takes no other's command
    assert recording.commanded()[1] == ticks[:1]


def test_jerk_at_a_boundary_is_kept_apart():
    """A ramp with one step of 0.1 where the second chunk takes over."""
    ticks = [
        tick(0.05 * i, request_id=1 + (i >= 5), deliver=0.004 if i == 5 else math.nan)
        for i in range(10)
    ]
    path = [0.01 * i + 0.1 * (i >= 5) for i in range(10)]
    commands = [(t.time, np.array([[path[i]]])) for i, t in enumerate(ticks)]
    jerk = report.build(Recording(("a",), ticks, [commands], ways=WAY), {})["jerk"]
    assert jerk["boundary"] == pytest.approx(0.1)
    assert jerk["interior"] == pytest.approx(0.1 / 7)

    # The same as trajectories: one with each chunk, the gripper by an output of its own.
    trajectory, gripper = outlets.ways(TWO_OUTPUTS)
    sent = [(ticks[i].time, np.array(path[i:])[:, None]) for i in (0, 5)]
    grips = [(t.time, np.array([[0.02]])) for t in ticks]
    numbered = [dataclasses.replace(t, number=40 + i) for i, t in enumerate(ticks)]
    ways = (trajectory, gripper)
    run = Recording(("arm", "grip"), numbered, [sent, grips], ways=ways)
    assert run.commanded()[0].tolist() == [[value, 0.02] for value in path]
    assert report.build(run, {})["jerk"] == pytest.approx(jerk)
    # A tick that was missed has its row too: the next one takes the row after it.
    missed = [t for t in numbered if t.number != 43]
    assert Recording(("arm", "grip"), missed, [sent, grips], ways=ways).commanded()[0][
        :, 0
    ].tolist() == (path[:3] + path[4:])


def test_execution_is_cut_where_it_paused_or_began_anew():
    times = [0.0, 0.05, 0.10, 0.40, 0.45, 0.50]
    ticks = [tick(t, epoch=1 + (i == 5)) for i, t in enumerate(times)]
    assert report.stretches(ticks) == [(0, 3), (3, 5), (5, 6)]


def test_drops_are_named_with_their_reasons():
    recording = Recording(
        diagnostics={
            "handoff_node: handoff": {"dropped chunks": "{'old_epoch': 2}", "ticks": "5"},
            "sim_node: episode": {"commands refused": "none"},
        }
    )
    assert report.build(recording, {})["drops"] == {
        "handoff_node: handoff: dropped chunks": "{'old_epoch': 2}"
    }


def test_pictures_are_written_and_not_empty(rehearsed, tmp_path):
    console = Console(file=(tmp_path / "out.txt").open("w"), width=120)
    what = monitor.Run(tmp_path, sim=True, about={"model": "expert", "robot": "ur10e"})
    monitor.write(what, rehearsed, console)
    console.file.close()
    for name, least in (("timeline.png", 1200), ("filmstrip.png", 1200)):
        picture = np.asarray(Image.open(tmp_path / name).convert("RGB"))
        assert picture.shape[1] >= least
        assert picture.std() > 15
    numbers = json.loads((tmp_path / "report.json").read_text())
    assert numbers["success"]["of"] == 2
    text = (tmp_path / "out.txt").read_text()
    assert "2 of 2 succeeded" in text
    assert "filmstrip.png" in text


def test_no_pictures_without_anything_to_show(tmp_path):
    empty = Recording(("a",), [tick(0.0, state=State.WAITING)])
    assert plots.timeline(empty, {}, tmp_path / "timeline.png") == []
    assert filmstrip.save(empty, tmp_path / "filmstrip.png") == []
    assert list(tmp_path.iterdir()) == []


def test_strip_without_a_simulator_shows_the_run(tmp_path):
    """One camera, an odd size, no outcome."""
    picture = np.full((90, 50, 3), 200, np.uint8)
    recording = Recording(frames=[Frame(0.5 * i, {"front": picture}) for i in range(20)])
    assert filmstrip.save(recording, tmp_path / "filmstrip.png") == ["filmstrip.png"]


def test_failures_get_room_on_the_strip():
    frame = [Frame(0.0, {})]
    episodes = [Episode({"success": i not in (8, 9)}, 0.0, 1.0, frame) for i in range(10)]
    chosen = filmstrip.choose(episodes)
    assert len(chosen) == filmstrip.ROWS
    assert [e.success for e in chosen] == [True, True, True, True, False, False]


def test_states_become_stretches():
    samples = [(0.0, State.WAITING), (1.0, State.EXECUTING), (2.0, State.EXECUTING),
               (3.0, State.HOLDING)]  # fmt: skip
    assert plots.spans(samples) == [
        (0.0, 1.0, State.WAITING), (1.0, 3.0, State.EXECUTING), (3.0, 3.0, State.HOLDING),
    ]  # fmt: skip


def test_progress_line_tells_the_state(rehearsed):
    text = line(12.3, 30.0, rehearsed)
    assert "12 s of 30 s" in text
    assert "2/2 episodes" in text


def test_a_run_in_which_nothing_acted_is_one_sentence():
    recording = Recording()
    recording.problems.append("no command in 120 s: handoff: no publisher on /phyai/chunk")
    text = shown(report.build(recording, {})).split("\n")
    assert text[0] == "The arm was never commanded: nothing was heard of the handoff."
    assert text[1].strip().startswith("problem no command in 120 s")
    assert not any(text[2:])
    recording.ticks += [tick(0.05 * i, state=State.WAITING) for i in range(3)]
    recording.episodes.append(Episode({"seed": 0}, 0.0))
    text = shown(report.build(recording, {}))
    assert text.startswith("The arm was never commanded: 3 control ticks, 0 chunks, no action.")
    del recording.ticks[1:]
    text = shown(report.build(recording, {}))
    assert text.startswith("The arm was never commanded: 1 control tick, 0 chunks, no action.")


def test_what_is_waited_for_is_noted_once_a_kind():
    console = Console(width=120, record=True, file=io.StringIO())
    progress = Progress(console)
    for text in (
        "handoff: 1 requests in a row are unanswered",
        "handoff: 2 requests in a row are unanswered",
        "joints: no position yet of wrist_1_joint",
        "handoff: 13 requests in a row are unanswered",
        "joints: no position yet of wrist_2_joint",
        "camera: no message for 1.5 s",
        "camera: no message for 22.0 s",
    ):
        progress.note(text)
    assert console.export_text().splitlines() == [
        "handoff: 1 requests in a row are unanswered",
        "joints: no position yet of wrist_1_joint",
        "joints: no position yet of wrist_2_joint",
        "camera: no message for 1.5 s",
    ]


def shown(numbers):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    report_table.show(numbers, console)
    console.file.close()
    return console.export_text()
