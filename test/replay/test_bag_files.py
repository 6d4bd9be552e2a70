# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Bags that were finished, killed, cut, filled up, or never were bags."""

import contextlib
import signal
import subprocess
import sys

import pytest
import yaml
from compose import SECOND, STRING, Composer
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from rosbags.rosbag2 import Reader

from phyai_ros.bags.mcap_scan import MAGIC
from phyai_ros.bags.reader import Bag, BagError
from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.bags.writer import STORAGES, BagWriter
from phyai_ros.tools import play, play_node

TIME = 1_700_000_000 * SECOND
storages = pytest.mark.parametrize("storage", sorted(STORAGES))


def serialised(text):
    composer = Composer(None)
    return bytes(composer.types.serialize_cdr(composer.text(text), STRING))


def texts(path):
    with Bag(path) as bag:
        return [bag.decode(message).data for message in bag.messages()]


@storages
def test_what_is_written_is_read_in_log_order_and_equal_times_stay_in_order(tmp_path, storage):
    writer = BagWriter(tmp_path / "bag", storage)
    writer.add_topic("/a", STRING)
    writer.add_topic("/b", STRING)
    for i, (topic, at) in enumerate([("/a", 2), ("/b", 2), ("/a", 2), ("/b", 1), ("/a", 3)]):
        writer.write(topic, TIME + at, serialised(str(i)))
    writer.close()
    assert texts(tmp_path / "bag") == ["3", "0", "1", "2", "4"]
    with Bag(tmp_path / "bag") as bag:
        assert {t.name: (t.type, t.count) for t in bag.topics.values()} == {
            "/a": (STRING, 3),
            "/b": (STRING, 2),
        }
        assert bag.note == ""
        assert [m.topic for m in bag.messages({"/b"})] == ["/b", "/b"]


KILLED = """
import sys, time
from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.bags.writer import BagWriter
recorder = BagRecorder(lambda: BagWriter(sys.argv[1], sys.argv[2]), 1 << 28, 0)
recorder.add_topic("/a", "std_msgs/msg/String", ())
for i in range(10**9):
    text = str(i).encode() + b"\\0"
    body = b"\\0\\1\\0\\0" + len(text).to_bytes(4, "little") + text
    recorder.offer("/a", 1_700_000_000_000_000_000 + i, body)
    if i % 100 == 0:
        print(i, time.monotonic(), flush=True)
        time.sleep(0.01)
"""


@storages
def test_a_killed_recorder_leaves_a_bag_that_is_readable_up_to_the_last_second(tmp_path, storage):
    path = tmp_path / "bag"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), storage], stdout=subprocess.PIPE, text=True
    )
    seen = []
    for line in process.stdout:
        number, at = line.split()
        seen.append((int(number), float(at)))
        if at_least_seconds(seen, 3.2):
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    found = [int(text) for text in texts(path)]
    assert found == list(range(len(found))), "a whole beginning, nothing missing inside"
    # What was offered until 1.5 s before the end is there: a flush a second, and time to do it.
    end = seen[-1][1]
    old = max(number for number, at in seen if at < end - 1.5)
    assert found[-1] >= old
    information = yaml.safe_load((path / "metadata.yaml").read_text())
    assert information["rosbag2_bagfile_information"]["message_count"] > 0
    with Bag(path) as bag:
        assert bag.count == len(found)


def at_least_seconds(seen, seconds):
    return seen[-1][1] - seen[0][1] > seconds


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a bag of several chunks, the last one never finished."""
    folder = tmp_path_factory.mktemp("whole") / "bag"
    writer = BagWriter(folder)
    writer.add_topic("/a", STRING)
    for i in range(40):
        writer.write("/a", TIME + i, serialised(f"text {i}"))
        if i % 10 == 9:
            writer.flush()
    return next(folder.glob("*.mcap")).read_bytes()


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_file_cut_anywhere_gives_its_beginning(whole, tmp_path_factory, data):
    size = data.draw(st.integers(40, len(whole)))
    path = tmp_path_factory.mktemp("cut") / "bag.mcap"
    path.write_bytes(whole[:size])
    found = texts(path)
    assert found == [f"text {i}" for i in range(len(found))]
    assert len(found) % 10 == 0
    if size == len(whole):
        assert len(found) == 40


@given(at=st.integers(8, 4000), value=st.integers(0, 255))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_byte_is_survived_or_named(whole, tmp_path_factory, at, value):
    broken = bytearray(whole)
    broken[at % len(whole)] = value
    path = tmp_path_factory.mktemp("damaged") / "bag.mcap"
    path.write_bytes(broken)
    with contextlib.suppress(BagError), Bag(path) as bag:  # any other exception fails the test
        found = [bag.decode(message) for message in bag.messages()]
        assert len(found) <= 40


@given(data=st.binary(max_size=300), suffix=st.sampled_from([".mcap", ".db3"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_bytes_that_are_no_bag_are_refused_by_name(tmp_path_factory, data, suffix):
    assume(not data.startswith(MAGIC))  # a bag that was cut off at once is one, and empty
    path = tmp_path_factory.mktemp("garbage") / f"bag{suffix}"
    path.write_bytes(data)
    with pytest.raises(BagError, match="bag"):
        texts(path)


def test_play_ends_with_2_for_what_is_no_bag_and_with_1_for_damage_on_the_way(
    tmp_path, monkeypatch, capsys
):
    junk = tmp_path / "junk.mcap"
    junk.write_bytes(b"\x07" * 300)
    assert play.main([str(junk)]) == 2
    assert "junk.mcap: not an MCAP file" in capsys.readouterr().err
    writer = BagWriter(tmp_path / "bag", "mcap")
    writer.add_topic("/instruction", STRING)
    writer.write("/instruction", TIME, serialised("go"))
    writer.close()

    class Damaged:
        def __init__(self, *given, **options):
            pass

        def play(self, *given):
            raise BagError("bag: damaged here")

        def close(self):
            pass

    monkeypatch.setattr(play_node, "Player", Damaged)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    assert play.main([str(tmp_path / "bag")]) == 1
    assert "bag: damaged here" in capsys.readouterr().err


def test_a_folder_without_a_bag_is_refused_by_name(tmp_path):
    with pytest.raises(BagError, match="expected a file"):
        Bag(tmp_path)
    with pytest.raises(BagError, match="no such bag"):
        Bag(tmp_path / "none")


FULL = """
import resource, sys
from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.bags.writer import BagWriter
recorder = BagRecorder(lambda: BagWriter(sys.argv[1], sys.argv[2]), 1 << 28, 0)
recorder.add_topic("/a", "std_msgs/msg/String", ())
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
text = b"x" * 100_000 + b"\\0"
body = b"\\0\\1\\0\\0" + len(text).to_bytes(4, "little") + text
import time
for i in range(400):
    recorder.offer("/a", 1_700_000_000_000_000_000 + i, body)
    time.sleep(0.05)
    if not recorder.running:
        break
recorder.close()
print(recorder.failure)
print(recorder.dropped["/a"])
"""


@storages
def test_a_full_disk_ends_the_recording_by_name_and_keeps_what_came_before(tmp_path, storage):
    """The operating system refuses to let the file grow, as a full disk does."""
    path = tmp_path / "bag"
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(path), storage],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    failure = run.stdout.splitlines()[0]
    assert "Error: " in failure
    assert "what came before is kept" in failure
    found = texts(path)
    assert len(found) >= 1
    assert all(text == "x" * 100_000 for text in found)


def test_less_free_space_than_the_reserve_ends_it_and_the_bag_is_finished(tmp_path):
    recorder = BagRecorder(lambda: BagWriter(tmp_path / "bag"), 1 << 20, reserve=1 << 60)
    recorder.add_topic("/a", STRING, ())
    recorder.offer("/a", TIME, serialised("first"))
    recorder._thread.join(10)
    assert not recorder.running
    assert "shall stay free" in recorder.failure
    recorder.offer("/a", TIME, serialised("late"))
    assert recorder.dropped["/a"] == 1
    assert texts(tmp_path / "bag") == ["first"]


def test_a_full_queue_drops_and_counts_and_never_blocks(tmp_path):
    recorder = BagRecorder(lambda: BagWriter(tmp_path / "bag"), 1000, 0)
    recorder.add_topic("/a", STRING, ())
    for i in range(3):
        recorder.offer("/a", TIME + i, serialised("x" * 2000))
    recorder.close()
    assert recorder.dropped["/a"] == 3
    assert recorder.failure is None


@storages
def test_metadata_is_what_rosbag2_reads_while_recording_goes_on(tmp_path, storage):
    """The keys that rosbag2's own reader asks for (rosbag2_storage, yaml.hpp), and its version."""
    writer = BagWriter(tmp_path / "bag", storage)
    writer.add_topic("/a", STRING)
    writer.write("/a", TIME, serialised("x"))
    writer.write("/a", TIME + 5, serialised("y"))
    writer.flush()
    early = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())
    writer.close()
    late = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())
    assert early == late
    information = late["rosbag2_bagfile_information"]
    assert information["storage_identifier"] == storage
    assert information["duration"] == {"nanoseconds": 5}
    assert information["starting_time"] == {"nanoseconds_since_epoch": TIME}
    (topic,) = information["topics_with_message_count"]
    assert topic["message_count"] == 2
    assert isinstance(topic["topic_metadata"]["offered_qos_profiles"], str)
    assert (tmp_path / "bag" / information["relative_file_paths"][0]).is_file()
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 2


def test_own_message_types_are_known_with_the_hash_that_ros_gives_them():
    import json

    from phyai_ros.bags import definitions

    store = definitions.own()
    hashes = {}
    for folder in definitions.message_folders():
        for file in folder.glob("*.json"):
            for entry in json.loads(file.read_text())["type_hashes"]:
                hashes[entry["type_name"]] = entry["hash_string"]
    assert "phyai_ros/msg/ActionChunk" in hashes, "are the messages built?"
    for name in ("ActionChunk", "InferenceRequest", "HandoffState", "StageTimes"):
        assert store.hash_rihs01(f"phyai_ros/msg/{name}") == hashes[f"phyai_ros/msg/{name}"]


@storages
def test_one_small_message_is_there_after_a_flush(tmp_path, storage):
    writer = BagWriter(tmp_path / "bag", storage)
    writer.add_topic("/a", STRING)
    writer.write("/a", TIME, serialised("small"))
    writer.flush()
    assert texts(tmp_path / "bag") == ["small"]
    writer.close()


def test_a_type_that_nobody_knows_is_refused_by_name(tmp_path):
    writer = BagWriter(tmp_path / "bag")
    with pytest.raises(ValueError, match="definition of foo/msg/Bar is not known"):
        writer.add_topic("/foo", "foo/msg/Bar")
    writer.close()
