# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag from anybody: messages as far as it goes, or a BagError that names it; never more memory
than its chunks may have."""

import shutil
import struct
from pathlib import Path

import lz4.frame
import pytest
import yaml
from backports import zstd
from fuzzing import altered, damaged, fuzz, outcome
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from phyai_ros.bags.mcap_scan import MAGIC
from phyai_ros.bags.reader import CUT_OFF, Bag, BagError
from phyai_ros.bags.unpack import LARGEST_CHUNK, is_bounded, unpack
from phyai_ros.bags.writer import BagWriter
from phyai_ros.replay.result import ResultError, load

COUNT = 60
KINDS = {"mcap": ("mcap", False), "zstd": ("mcap", True), "sqlite3": ("sqlite3", False)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small whole bag of every kind, by the kind's name."""
    root = tmp_path_factory.mktemp("bags")
    for name, (storage, compress) in KINDS.items():
        writer = BagWriter(root / name, storage, compress=compress)
        writer.add_topic("/joint_states", "sensor_msgs/msg/JointState")
        writer.add_topic("/instruction", "std_msgs/msg/String")
        for i in range(COUNT):
            joints = JointState(name=["a", "b"], position=[float(i), 2.0])
            writer.write("/joint_states", 10**9 + i, serialize_message(joints))
            if i % 20 == 19:
                writer.write("/instruction", 10**9 + i, serialize_message(String(data="go")))
                writer.flush()
        writer.close()
    return root


def read(path: Path) -> int:
    with Bag(path) as bag:
        count = 0
        for message in bag.messages():
            outcome(BagError, lambda message=message: bag.decode(message))
            count += 1
        return count


def copied(folder: Path, kind: str) -> Path:
    target = folder / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder / kind, target)
    return target


def storage(bag: Path) -> Path:
    return next(file for file in bag.iterdir() if file.suffix in (".mcap", ".db3"))


@fuzz
@given(st.data(), st.sampled_from(sorted(KINDS)), st.booleans())
def test_any_damage_to_the_storage(folder, data, kind, alone):
    bag = copied(folder, kind)
    file = storage(bag)
    file.write_bytes(data.draw(damaged(file.read_bytes())))
    count, _ = outcome(BagError, lambda: read(file if alone else bag))
    assert count is None or count < 1000


@fuzz
@given(st.data(), st.sampled_from(sorted(KINDS)))
def test_any_lie_of_the_metadata(folder, data, kind):
    bag = copied(folder, kind)
    file = bag / "metadata.yaml"
    if data.draw(st.booleans()):
        file.write_text(yaml.safe_dump(data.draw(altered(yaml.safe_load(file.read_text())))))
    else:
        file.write_bytes(data.draw(damaged(file.read_bytes())))
    outcome(BagError, lambda: read(bag))


@fuzz
@given(st.binary(max_size=400))
def test_any_bytes_after_the_magic(folder, data):
    file = folder / "any.mcap"
    file.write_bytes(MAGIC + data)
    outcome(BagError, lambda: read(file))


@fuzz
@given(st.binary(max_size=400))
def test_any_bytes_as_a_result(folder, data):
    file = folder / "any.npz"
    file.write_bytes(data)
    _, refusal = outcome(ResultError, lambda: load(file))
    assert str(file) in refusal


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_bag_is_read_whole(folder, kind):
    with Bag(folder / kind) as bag:
        assert bag.note == ""
    assert read(folder / kind) == COUNT + COUNT // 20


# -- chunks that unpack to far more than they say ----------------------------------------------


def record(code: int, body: bytes) -> bytes:
    return struct.pack("<BQ", code, len(body)) + body


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode()


def bomb(path: Path, compression: str, packed: bytes, said: int) -> Path:
    """An MCAP file of one chunk, with its footer, as a program that means harm would write it."""
    chunk = struct.pack("<QQQI", 0, 1, said, 0) + text(compression)
    chunk += struct.pack("<Q", len(packed)) + packed
    footer = record(0x02, struct.pack("<QQI", 0, 0, 0))
    head = record(0x01, text("ros2") + text("test"))
    path.write_bytes(MAGIC + head + record(0x06, chunk) + footer + MAGIC)
    return path


ZEROS = bytes(64 << 20)
PACKED = {
    "zstd": zstd.compress(ZEROS),
    "frames": zstd.compress(b"\0" * 100) + zstd.compress(ZEROS),
    "lz4": lz4.frame.compress(ZEROS),
}


@pytest.mark.parametrize("said", [100, len(ZEROS), LARGEST_CHUNK + 1, 2**63])
@pytest.mark.parametrize("kind", PACKED)
def test_a_chunk_is_unpacked_to_what_it_says_and_no_more(tmp_path, kind, said):
    compression = "lz4" if kind == "lz4" else "zstd"
    honest = kind == "zstd" and said == len(ZEROS)
    file = bomb(tmp_path / "bomb.mcap", compression, PACKED[kind], said)
    assert is_bounded(file) == honest
    if (
        not honest
        and not (kind == "lz4" and said == len(ZEROS))
        and not (kind == "frames" and said == 100)
    ):
        with pytest.raises(ValueError, match="expected"):
            unpack(compression, PACKED[kind], said)
    count, _ = outcome(BagError, lambda: read(file))
    assert not count


def test_a_bag_packed_with_lz4_is_read(folder, tmp_path):
    """Its frames need not say their size, so it is read here and not by the library."""
    plain = storage(folder / "mcap").read_bytes()
    found, at = bytearray(MAGIC), len(MAGIC)
    while at + 9 < len(plain) - len(MAGIC):
        code, size = struct.unpack_from("<BQ", plain, at)
        body = plain[at + 9 : at + 9 + size]
        at += 9 + size
        if code == 0x06:
            start, end, said, check = struct.unpack_from("<QQQI", body)
            (length,) = struct.unpack_from("<I", body, 28)
            records = body[40 + length :]
            packed = lz4.frame.compress(records)
            body = struct.pack("<QQQI", start, end, said, check) + text("lz4")
            body += struct.pack("<Q", len(packed)) + packed
        if code in (0x01, 0x02, 0x03, 0x04, 0x06):
            found += record(code, body)
    file = tmp_path / "packed.mcap"
    file.write_bytes(bytes(found) + MAGIC)
    assert read(file) == COUNT + COUNT // 20
    with Bag(file) as bag:
        assert bag.note == ""
    file.write_bytes(bytes(found)[:-200])
    with Bag(file) as bag:
        assert bag.note == CUT_OFF
