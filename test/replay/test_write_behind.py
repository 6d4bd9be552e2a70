# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag reaches the disk in small pieces and leaves the page cache behind itself."""

import os
from pathlib import Path

import pytest

from phyai_ros.bags.reader import Bag
from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.bags.write_behind import LAG, PIECE, WriteBehind, open_small
from phyai_ros.bags.writer import BagWriter

IMAGE = bytes(range(256)) * 3600
"""As large as 640x480 rgb8."""
TOPIC = "/camera/scene/image_raw"


def writer(path: Path, storage: str = "mcap") -> BagWriter:
    bag = BagWriter(path, storage)
    bag.add_topic(TOPIC, "sensor_msgs/msg/Image")
    return bag


def file_of(path: Path) -> Path:
    return next(f for f in path.iterdir() if f.suffix in (".mcap", ".db3"))


def calls_and_bytes() -> tuple[int, int]:
    """Write calls of this process so far, and what they wrote."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    counts = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return counts["syscw"], counts["wchar"]


def cached(path: Path, at: int) -> bool:
    """Whether the page at byte ``at`` can be read without the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(file, [bytearray(1)], at, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    finally:
        os.close(file)


@pytest.fixture
def disk(tmp_path):
    """A folder whose files can leave the page cache."""
    probe = tmp_path / "probe"
    with probe.open("wb") as file:
        file.write(bytes(PIECE))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached(probe, 0):
        pytest.skip(f"the file system of {tmp_path} keeps its files in memory")
    return tmp_path


def test_no_write_is_larger_than_a_piece(tmp_path):
    bag = writer(tmp_path / "bag")
    calls, size = calls_and_bytes()
    for i in range(20):
        bag.write(TOPIC, i, IMAGE)
    bag.flush()
    after = calls_and_bytes()
    bag.close()
    assert after[1] - size >= 20 * len(IMAGE)
    assert after[1] - size <= PIECE * (after[0] - calls)


def test_small_pieces_are_the_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    parts = [IMAGE, b"x", IMAGE[:PIECE], IMAGE[: PIECE + 1], b""]
    with open_small(path, 6) as file:
        for part in parts:
            assert file.write(part) == len(part)
        assert file.tell() == 6 + sum(map(len, parts))
    assert path.read_bytes() == b"before" + b"".join(parts)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_what_is_on_the_disk_leaves_the_page_cache(disk, storage):
    bag = writer(disk / "bag", storage)
    count = LAG // len(IMAGE) + 4
    for i in range(count):
        bag.write(TOPIC, i, IMAGE)
    bag.flush()
    path = file_of(bag.path)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    old = range(1 << 16, 2 << 20, 1 << 16)  # SQLite's header, before it, is always new
    for i in range(count):
        bag.write(TOPIC, count + i, IMAGE)
    bag.flush()
    assert not any(cached(path, at) for at in old)
    bag.close()
    with Bag(bag.path) as found:
        messages = list(found.messages())
    assert [m.time_ns for m in messages] == list(range(2 * count))
    assert {bytes(m.data) for m in messages} == {IMAGE}


def test_what_the_disk_has_not_taken_yet_is_not_lost(tmp_path):
    """A file that is never synced: whatever is forgotten of it, its bytes are right."""
    path = tmp_path / "file"
    path.touch()
    behind = WriteBehind(path)
    with open_small(path, 0) as file:
        for i in range(80):
            file.write(bytes([i]) * (1 << 20))
            file.flush()
            behind.advance()
    behind.close()
    with path.open("rb") as file:
        assert [set(file.read(1 << 20)) for _ in range(80)] == [{i} for i in range(80)]


def open_files(path: Path) -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # the list's own
    return [name for name in found if name.startswith(str(path))]


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_no_file_stays_open(tmp_path, storage):
    bag = writer(tmp_path / "closed", storage)
    bag.write(TOPIC, 1, IMAGE)
    bag.close()
    bag = writer(tmp_path / "rescued", storage)
    bag.write(TOPIC, 1, IMAGE)
    bag.rescue()
    recorder = BagRecorder(lambda: writer(tmp_path / "recorded", storage), 1 << 24, 0)
    recorder.offer(TOPIC, 1, IMAGE)
    recorder.close()
    assert recorder.failure is None
    assert open_files(tmp_path) == []
