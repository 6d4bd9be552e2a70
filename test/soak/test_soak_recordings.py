# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Bags of a recorder that was killed, ran out of disk, or went on in the next one."""

import time

import pytest

from phyai_ros.bags.writer import BagWriter
from phyai_ros.tools.soaking import bags, recordings
from phyai_ros.tools.soaking.recordings import Recordings

NOW = time.time()
TEXT = b"\0\1\0\0\5\0\0\0abcd\0"


def write(path, start, seconds, *, finish=True):
    """A bag with a message a second."""
    writer = BagWriter(path)
    writer.add_topic("/words", "std_msgs/msg/String")
    for second in range(seconds):
        writer.write("/words", round((start + second) * 1e9), TEXT)
    writer.flush()
    if finish:
        writer.close()


@pytest.fixture
def made(tmp_path):
    return Recordings("ur10e", tmp_path / "bags", {}, tmp_path / "log")


def test_a_bag_ends_where_its_recorder_did_or_the_next_begins(made, tmp_path):
    folder = tmp_path / "bags"
    write(folder / "bag1", NOW, 10)
    write(folder / "bag1_2", NOW + 10, 5, finish=False)
    write(folder / "bag1_10", NOW + 20, 5)
    made.disk_full(NOW + 14.5)
    made.check()
    assert [b.path for b in made.checked] == ["bag1", "bag1_2", "bag1_10"], "in their order"
    assert [b.trouble for b in made.checked] == ["", "", ""]
    assert made.checked[0].gap == pytest.approx(1.0, abs=0.01)
    assert made.checked[1].gap == pytest.approx(0.5, abs=0.01)
    assert list(folder.iterdir()) == [], "they are removed once they are read"


def test_a_bag_that_the_full_disk_kept_empty_does_not_hide_the_one_before(made, tmp_path):
    folder = tmp_path / "bags"
    write(folder / "bag1", NOW, 3)
    write(folder / "bag1_2", NOW, 0, finish=False)
    made.check()
    assert [(b.path, b.messages) for b in made.checked] == [("bag1", 3), ("bag1_2", 0)]
    assert "no message" in made.checked[1].trouble


def test_what_is_still_written_is_left_alone(made, tmp_path, monkeypatch):
    folder = tmp_path / "bags"
    write(folder / "bag1", NOW, 3)
    monkeypatch.setattr(Recordings, "pid", 1)
    made.check()
    write(folder / "bag1_2", NOW + 3, 3, finish=False)
    made.check()
    assert made.checked == [], "the first may still be being closed"
    monkeypatch.setattr(recordings, "CLOSING", 0.0)
    made.check()
    assert [b.path for b in made.checked] == ["bag1"]
    assert [p.name for p in folder.iterdir()] == ["bag1_2"]


def test_between_two_bags_there_is_nothing_to_read(made, tmp_path):
    (tmp_path / "bags").mkdir(exist_ok=True)
    made.check()
    assert made.checked == []


def test_a_recorder_records_when_messages_are_in_its_newest_bag(made, tmp_path):
    folder = tmp_path / "bags"
    folder.mkdir(exist_ok=True)
    assert not made.recording()
    write(folder / "bag9", NOW, 3)
    (folder / "bag10").mkdir()
    (folder / "bag10" / "bag10.mcap").write_bytes(bytes(200))
    assert not made.recording()
    (folder / "bag10" / "bag10.mcap").write_bytes(bytes(recordings.BEGUN))
    assert made.recording()


def test_a_damaged_bag_is_said(tmp_path):
    (tmp_path / "bag1").mkdir()
    (tmp_path / "bag1" / "bag1.mcap").write_bytes(b"no bag at all")
    found = bags.check(tmp_path / "bag1", [NOW])
    assert found.trouble


def test_seconds_that_are_missing_are_counted(tmp_path):
    write(tmp_path / "bag1", NOW, 3)
    assert bags.check(tmp_path / "bag1", [NOW - 5.0, NOW + 9.0]).gap == pytest.approx(7.0, abs=0.01)
