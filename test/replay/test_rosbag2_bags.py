# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Bags as ``ros2 bag record`` writes them: split, packed, of each distribution, rewritten, cut.

Every kind holds the same messages; each is read whole, in log order, or says what it lacks.
"""

import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from backports import zstd
from compose import SECOND, STRING, Composer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from phyai_ros.bags import definitions, unpack
from phyai_ros.bags.mcap_scan import MAGIC
from phyai_ros.bags.reader import CUT_OFF, Bag, BagError
from phyai_ros.replay.replay import replay

TIME = 1_700_000_000 * SECOND
COUNT = 30
SUFFIX = {"mcap": ".mcap", "sqlite3": ".db3"}
storages = pytest.mark.parametrize("storage", sorted(SUFFIX))


def serialised(text):
    composer = Composer(None)
    return bytes(composer.types.serialize_cdr(composer.text(text), STRING))


def written(path, storage="mcap", numbers=range(COUNT), version=9, mode=None):
    """A bag of strings, each logged at the time it names."""
    writer = Writer(
        path, version=version, storage_plugin=StoragePlugin[storage.upper()]
    )  # as rosbag2's own
    if mode:
        writer.set_compression(CompressionMode[mode.upper()], CompressionFormat.ZSTD)
    with writer:
        connection = writer.add_connection("/a", STRING, typestore=Composer(None).types)
        for i in numbers:
            writer.write(connection, TIME + i, serialised(str(i)))
    return path


def split(folder, storage, parts, listed=None):
    """One bag of several files, as ``--max-bag-size`` makes it. listed: in its metadata.yaml."""
    folder.mkdir()
    names = []
    for i, numbers in enumerate(parts):
        part = written(folder / "part", storage, numbers)
        file = next(part.glob("*" + SUFFIX[storage]))
        names.append(f"bag_{i}{SUFFIX[storage]}")
        file.rename(folder / names[-1])
        information = yaml.safe_load((part / "metadata.yaml").read_text())
        for left in part.iterdir():
            left.unlink()
        part.rmdir()
    head = information["rosbag2_bagfile_information"]
    head["relative_file_paths"] = names[:listed]
    (folder / "metadata.yaml").write_text(yaml.safe_dump(information))
    return folder


def texts(bag):
    return [bag.decode(message).data for message in bag.messages()]


def expect(path, note="", numbers=range(COUNT)):
    with Bag(path) as bag:
        assert bag.note == note
        assert texts(bag) == [str(i) for i in numbers]
        assert bag.topics["/a"].count == bag.count == len(list(numbers))
        assert bag.topics["/a"].type == STRING
        found = [message.time_ns for message in bag.messages({"/a"})]
        assert found == sorted(found)


@storages
def test_a_split_bag_is_one_bag_whose_files_may_overlap(tmp_path, storage):
    parts = [[0, 1, 3], [2, 4, 6], [5, 7, 8, 9], *([i] for i in range(10, COUNT))]
    expect(split(tmp_path / "bag", storage, parts))


@storages
def test_a_recorder_killed_after_a_split_listed_only_the_files_before(tmp_path, storage):
    bag = split(tmp_path / "bag", storage, [range(10), range(10, 20), range(20, COUNT)], listed=2)
    written(tmp_path / "other", storage, [99])
    next((tmp_path / "other").glob("*" + SUFFIX[storage])).rename(bag / f"old{SUFFIX[storage]}")
    expect(bag, f"bag_2{SUFFIX[storage]} is not in metadata.yaml: {CUT_OFF}")


@storages
def test_a_file_that_went_missing_is_named(tmp_path, storage):
    bag = split(tmp_path / "bag", storage, [range(10), range(10, 20), range(20, COUNT)])
    (bag / f"bag_1{SUFFIX[storage]}").unlink()
    expect(bag, f"bag_1{SUFFIX[storage]} is missing", [*range(10), *range(20, COUNT)])


@storages
def test_a_file_in_which_nothing_can_be_read_is_named_and_left_out(tmp_path, storage):
    bag = split(tmp_path / "bag", storage, [range(10), range(10, 20), range(20, COUNT)])
    (bag / f"bag_2{SUFFIX[storage]}").write_bytes(bytes(4096))
    with Bag(bag) as opened:
        assert opened.note.startswith(f"left out: {bag / 'bag_2'}{SUFFIX[storage]}")
        assert texts(opened) == [str(i) for i in range(20)]
    for file in bag.glob("bag_*"):
        file.write_bytes(b"")
    with pytest.raises(BagError, match="bag_0"):
        Bag(bag)


@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("mode", ["file", "message"])
@storages
def test_compressed_by_file_or_by_message(tmp_path, storage, mode, metadata):
    bag = written(tmp_path / "bag", storage, mode=mode)
    if not metadata:
        (bag / "metadata.yaml").unlink()
    expect(bag, "" if metadata else CUT_OFF)


def test_a_compressed_file_alone_and_one_that_was_cut_off(tmp_path):
    bag = written(tmp_path / "bag", mode="file")
    packed = next(bag.glob("*.zstd"))
    expect(packed)
    whole = zstd.decompress(packed.read_bytes())
    half = len(whole) // 2
    packed.write_bytes(zstd.compress(whole[:half]) + zstd.compress(whole[half:])[:-8])
    with Bag(bag) as opened:
        assert f"{packed.name}: {CUT_OFF}" in opened.note
        found = texts(opened)
    assert found == [str(i) for i in range(len(found))]
    packed.with_suffix("").write_bytes(whole)  # killed while it packed: the plain file is whole
    expect(bag)
    packed.with_suffix("").unlink()
    packed.write_bytes(b"no zstd at all")
    with pytest.raises(BagError, match=r"\.zstd: cannot be unpacked"):
        Bag(bag)


def test_compressed_files_leave_nothing_behind_and_stop_at_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "room"))
    (tmp_path / "room").mkdir()
    bag = written(tmp_path / "bag", mode="file")
    with Bag(bag):
        assert len(list((tmp_path / "room").iterdir())) == 1
    assert not list((tmp_path / "room").iterdir())
    monkeypatch.setattr(unpack, "RESERVE", 1 << 62)
    with pytest.raises(BagError, match="needs more room"):
        Bag(bag)
    assert not list((tmp_path / "room").iterdir())


def test_a_message_that_unpacks_to_more_than_a_chunk_may_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "LARGEST_CHUNK", 1 << 20)
    bag = tmp_path / "bag"
    writer = Writer(bag, version=9, storage_plugin=StoragePlugin.SQLITE3)
    with writer:
        connection = writer.add_connection("/a", STRING, typestore=Composer(None).types)
        writer.write(connection, TIME, zstd.compress(bytes(2 << 20)))
    with Bag(bag) as opened, pytest.raises(BagError, match="at most 1 MB a message"):
        list(opened.messages())
    assert unpack.message(zstd.compress(b"small")) == b"small"
    with pytest.raises(ValueError, match="ends too early"):
        unpack.message(zstd.compress(bytes(range(256)) * 9)[:-9])


# Quality of service as the distributions write it: rosbag2_storage, yaml.hpp and qos.cpp.
NEVER = {"sec": 9223372036, "nsec": 854775807}
HUMBLE = [
    {
        "history": 3,
        "depth": 0,
        "reliability": 2,
        "durability": 2,
        "deadline": NEVER,
        "lifespan": NEVER,
        "liveliness": 1,
        "liveliness_lease_duration": NEVER,
        "avoid_ros_namespace_conventions": False,
    }
]
JAZZY = [
    {
        **HUMBLE[0],
        "history": "unknown",
        "reliability": "best_effort",
        "durability": "volatile",
        "liveliness": "automatic",
    }
]


@pytest.mark.parametrize(
    ("version", "qos"),
    [
        (4, yaml.safe_dump(HUMBLE)),
        (5, yaml.safe_dump(HUMBLE)),
        (6, yaml.safe_dump(HUMBLE)),
        (7, ""),
        (8, yaml.safe_dump(HUMBLE)),
        (9, JAZZY),
        (9, []),
        (10, JAZZY),
    ],
)
@storages
def test_metadata_of_every_distribution_and_what_disagrees_with_the_file(
    tmp_path, storage, version, qos
):
    """A bag that was rewritten or reindexed has other quality of service in its metadata than in
    its storage; the messages are there all the same."""
    bag = written(tmp_path / "bag", storage)
    file = bag / "metadata.yaml"
    information = yaml.safe_load(file.read_text())
    head = information["rosbag2_bagfile_information"]
    head["version"] = version
    for topic in head["topics_with_message_count"]:
        topic["topic_metadata"]["offered_qos_profiles"] = qos
        if version < 7:
            del topic["topic_metadata"]["type_description_hash"]
    since = {5: ["files"], 6: ["custom_data"], 8: ["ros_distro"]}
    for first, keys in since.items():
        for key in keys if version < first else []:
            head.pop(key, None)
    file.write_text(yaml.safe_dump(information))
    expect(bag)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "names no relative_file_paths"),
        ("rosbag2_bagfile_information: {relative_file_paths: 3}", "expected a list"),
        ("rosbag2_bagfile_information: {relative_file_paths: [gone.mcap]}", "gone.mcap"),
        ("rosbag2_bagfile_information: {relative_file_paths: []}", "no file"),
    ],
)
def test_metadata_that_is_none_is_said_and_the_files_are_read(tmp_path, text, said):
    bag = written(tmp_path / "bag")
    (bag / "metadata.yaml").write_text(text)
    with Bag(bag) as opened:
        assert said in opened.note
        assert len(texts(opened)) == COUNT


# -- MCAP files whose writer was told to leave something out ----------------------------------


def records(data):
    at = len(MAGIC)
    while at + 9 <= len(data) - len(MAGIC):
        code, size = struct.unpack_from("<BQ", data, at)
        yield code, data[at + 9 : at + 9 + size]
        at += 9 + size


def record(code, body):
    return struct.pack("<BQ", code, len(body)) + body


def inside(chunk):
    (length,) = struct.unpack_from("<I", chunk, 28)
    return MAGIC + chunk[40 + length :] + MAGIC


FOOTER = record(0x02, bytes(20))
MIXED = [0, 2, 1, 5, 4, 3, 7, 6, *range(8, COUNT)]


def unchunked(path, numbers):
    """rosbag2's profile ``fastwrite``: messages outside any chunk, as they came."""
    source = next(written(path.parent / "source", numbers=[0]).glob("*.mcap")).read_bytes()
    found, message = MAGIC, b""
    for code, body in records(source):
        if code == 0x01:
            found += record(code, body)
        if code == 0x06:
            for code_inside, body_inside in records(inside(body)):
                if code_inside == 0x05:
                    message = body_inside
                else:
                    found += record(code_inside, body_inside)
    for i in numbers:
        head = message[:2] + struct.pack("<IQQ", i, TIME + i, TIME + i)
        found += record(0x05, head + serialised(str(i)))
    path.write_bytes(found + FOOTER + MAGIC)
    return path


def test_messages_outside_chunks_come_in_log_order_finished_or_cut(tmp_path):
    file = unchunked(tmp_path / "fast.mcap", MIXED)
    expect(file)
    file.write_bytes(file.read_bytes()[: -len(FOOTER + MAGIC)])
    expect(file, CUT_OFF)


@pytest.mark.parametrize("left_out", [(0x07, 0x08), (0x07,), (0x0B,), (0x03, 0x04)])
def test_chunks_without_an_index_statistics_or_repeated_channels(tmp_path, left_out):
    """``noChunkIndex``, ``noMessageIndex``, ``noStatistics``, ``noRepeatedChannels``."""
    source = next(written(tmp_path / "bag", numbers=MIXED).glob("*.mcap")).read_bytes()
    found, summary, data_ended = MAGIC, 0, False
    for code, body in records(source):
        if code == 0x02:
            body = struct.pack("<QQI", summary, 0, 0)
        elif code == 0x08 and 0x07 in left_out:
            (length,) = struct.unpack_from("<I", body, 32)
            body = body[:32] + bytes(12) + body[36 + length + 8 :]
        if code in left_out and not (code in (0x03, 0x04) and not data_ended):
            continue
        if code == 0x0E:  # offsets of the summary's groups, which moved
            continue
        found += record(code, body)
        if code == 0x0F:
            data_ended, summary = True, len(found)
    file = tmp_path / "bare.mcap"
    file.write_bytes(found + MAGIC)
    expect(file)


def test_an_unfinished_file_gives_the_order_that_the_finished_one_gives(tmp_path):
    """Chunks of one recorder overlap: its topics are received by several threads."""
    from phyai_ros.bags.writer import BagWriter

    writer = BagWriter(tmp_path / "bag")
    for topic in ("/a", "/b"):
        writer.add_topic(topic, STRING)
    for i, at in enumerate([1, 5, 9, 4, 4, 12, 11, 8, 20, 12, 3, 30]):
        writer.write("/ab"[:1] + "ab"[i % 2], TIME + at, serialised(str(i)))
        if i % 3 == 2:
            writer.flush()
    with Bag(tmp_path / "bag") as bag:
        cut = texts(bag)
        assert bag.note == CUT_OFF
    writer.close()
    with Bag(tmp_path / "bag") as bag:
        assert texts(bag) == cut
    assert cut == [str(i) for i in (0, 10, 3, 4, 1, 7, 2, 6, 5, 9, 8, 11)]


def test_waiting_messages_are_bounded_where_a_chunk_lies_about_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr("phyai_ros.bags.mcap_scan.LARGEST_CHUNK", 100)
    file = unchunked(tmp_path / "fast.mcap", [*range(1, COUNT), 0])
    with Bag(file) as bag:
        found = [int(text) for text in texts(bag)]
    assert sorted(found) == list(range(COUNT))
    assert found[:20] == list(range(1, 21)), "given away before the last one came"


def test_a_definition_that_nobody_can_read_spoils_its_own_topic_alone(tmp_path):
    """``ros2 bag record --all`` of Jazzy keeps service events, with the service's definition."""
    file = unchunked(tmp_path / "fast.mcap", range(COUNT))

    def text(value):
        return struct.pack("<I", len(value)) + value.encode()

    name = "example_interfaces/srv/AddTwoInts_Event"
    schema = struct.pack("<H", 9) + text(name) + text("ros2msg") + text("int64 a\n---\nint64 sum\n")
    channel = struct.pack("<HH", 9, 9) + text("/add/_service_event") + text("cdr") + bytes(4)
    other = struct.pack("<HH", 8, 0) + text("/no_schema") + text("json") + bytes(4)
    event = struct.pack("<HIQQ", 9, 0, TIME, TIME) + b"\0\1\0\0" + bytes(8)
    plain = struct.pack("<HIQQ", 8, 0, TIME, TIME) + b"{}"
    added = record(3, schema) + record(4, channel) + record(4, other)
    added += record(5, event) + record(5, plain)
    file.write_bytes(file.read_bytes()[: -len(FOOTER + MAGIC)] + added + FOOTER + MAGIC)
    with Bag(file) as bag:
        assert bag.note == ""
        assert len(bag.topics) == 3
        found = list(bag.messages({"/a"}))
        assert [bag.decode(message).data for message in found] == [str(i) for i in range(COUNT)]
        (message,) = bag.messages({"/add/_service_event"})
        with pytest.raises(BagError, match="its definition in the bag cannot be read"):
            bag.decode(message)


# -- all of it together ------------------------------------------------------------------------


def test_a_live_run_recorded_by_rosbag2_is_replayed_as_one_recorded_here(tmp_path, session):
    """Split, compressed message by message, SQLite without definitions, other quality of service in
    its metadata, and topics that nobody here knows: the same chunks and commands, bit for bit."""
    golden = Path(__file__).parents[1] / "data" / "bags" / "gr00t"
    other = tmp_path / "other"
    with Bag(golden) as bag:
        expected = replay(bag, session)
        messages = list(bag.messages())
    for i, part in enumerate((messages[: len(messages) // 2], messages[len(messages) // 2 :])):
        writer = Writer(other / f"part{i}", version=8, storage_plugin=StoragePlugin.SQLITE3)
        writer.set_compression(CompressionMode.MESSAGE, CompressionFormat.ZSTD)
        with writer:
            connections = {}
            for m in part:
                if m.topic not in connections:
                    connections[m.topic] = writer.add_connection(
                        m.topic, m.type, typestore=definitions.own()
                    )
                writer.write(connections[m.topic], m.time_ns, m.data)
            unknown = writer.add_connection("/rosout", STRING, typestore=definitions.own())
            writer.write(unknown, part[0].time_ns, b"\0\1\0\0 no string at all")
        file = other / f"part{i}" / f"part{i}.db3"
        with sqlite3.connect(file) as database:
            database.execute("DELETE FROM message_definitions")
            database.execute("UPDATE topics SET type = 'foo/msg/Bar' WHERE name = '/rosout'")
        file.rename(other / f"run_{i}.db3")
        metadata = other / f"part{i}" / "metadata.yaml"
        information = yaml.safe_load(metadata.read_text())
        metadata.unlink()
    head = information["rosbag2_bagfile_information"]
    head["relative_file_paths"] = ["run_0.db3", "run_1.db3"]
    for topic in head["topics_with_message_count"]:
        topic["topic_metadata"]["offered_qos_profiles"] = yaml.safe_dump(HUMBLE)
    (other / "metadata.yaml").write_text(yaml.safe_dump(information))
    with Bag(other) as bag:
        assert bag.note == ""
        found = replay(bag, session)
    assert len(found["request_id"]) == 14
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


# -- SQLite files whose writer was killed ------------------------------------------------------

KILLED = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("PRAGMA synchronous=NORMAL")
messages = connection.execute("SELECT * FROM messages").fetchall()
connection.execute("DELETE FROM messages")
for row in messages:
    connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?)", row)
connection.execute("BEGIN")
for i in range(1000):
    row = (10_000 + i, messages[0][1], messages[0][2] + 10_000 + i, b"x" * 100_000)
    connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?)", row)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_sqlite_writer_in_rosbag2s_resilient_profile(tmp_path):
    """WAL: what was committed is in a file beside it, what was not is undone."""
    bag = written(tmp_path / "bag", "sqlite3")
    file = next(bag.glob("*.db3"))
    run = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert run.returncode == -9
    assert file.with_name(file.name + "-wal").stat().st_size > 10_000
    with sqlite3.connect(f"file:{file}?immutable=1", uri=True) as seen:
        assert seen.execute("SELECT count(*) FROM messages").fetchone()
    expect(bag)
