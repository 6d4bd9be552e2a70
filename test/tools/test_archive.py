# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.tools.archive import BATCH, Archive


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3 * BATCH)), max_size=8))
def test_nothing_is_lost_or_moved_and_lists_stay_short(tmp_path_factory, steps):
    archive = Archive(tmp_path_factory.mktemp("run"))
    lists, whole = {"a": [], "b": []}, {"a": [], "b": []}
    for name, count in steps:
        for entries in (lists[name], whole[name]):
            entries += range(len(whole[name]), len(whole[name]) + count)
        archive.trim(lists)
        assert all(len(entries) < 2 * BATCH for entries in lists.values())
    archive.restore(lists)
    assert lists == whole


def test_the_newest_stay_at_hand(tmp_path):
    archive, lists = Archive(tmp_path), {"ticks": list(range(10 * BATCH))}
    archive.trim(lists)
    assert lists["ticks"][-1] == 10 * BATCH - 1
    assert len(lists["ticks"]) >= BATCH


def test_a_full_disk_costs_memory_and_no_entries(tmp_path):
    archive, lists = Archive(tmp_path), {"ticks": list(range(5 * BATCH))}
    archive.trim(lists)
    file, archive._file = archive._file, open("/dev/full", "r+b")  # noqa: SIM115
    lists["ticks"] += range(5 * BATCH, 9 * BATCH)
    archive.trim(lists)
    assert len(lists["ticks"]) > 4 * BATCH
    archive._file = file
    archive.trim(lists)
    archive.restore(lists)
    assert lists["ticks"] == list(range(9 * BATCH))


def test_the_file_has_no_name(tmp_path):
    Archive(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        Archive(tmp_path / "none")
