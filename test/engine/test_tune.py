# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Choices of operators: what is taken, what is kept and what is told, with times that are given."""

import json
import logging
import threading
import time

import pytest
import torch

from phyai_ros.engine.layers import tune
from phyai_ros.engine.layers.select import FastOperators


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Makes tables of one device model, as at starts of different releases. A candidate gives its
    own time, or raises."""

    def make(shipped=None):
        (tmp_path / "shipped").mkdir(exist_ok=True)
        (tmp_path / "shipped" / "a_gpu_2.json").write_text(json.dumps(shipped or {}))
        return tune.Table(torch.device("cuda"))

    monkeypatch.setenv("PHYAI_ROS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tune, "_SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(tune, "seconds", lambda candidate, copies: candidate(0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A GPU-2")
    return make


def fails(_):
    raise ValueError("no memory\nand more")


def takes(seconds):
    return lambda _: seconds


def told(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_the_fastest_is_taken_and_kept_for_the_next_start(table):
    first = table()
    assert first.measure("product", {"library": takes(2.0), "ours": takes(1.0)}, 1) == "ours"
    first.save()
    assert table().choices == {"product": "ours"}
    assert table({"product": "library", "other": "ours"}).choices == {
        "product": "ours", "other": "ours",
    }  # fmt: skip


def test_shipped_choices_are_those_of_this_release(table):
    early = table({"shipped": "early", "gone": "early"})
    early.measure("measured", {"ours": takes(1.0)}, 1)
    early.save()
    assert table({"shipped": "late"}).choices == {"shipped": "late", "measured": "ours"}


def test_a_file_of_an_early_release_is_not_taken(table, tmp_path):
    """Nobody can tell what in it was shipped."""
    old = tmp_path / "cache" / "operators" / "a_gpu_2.json"
    old.parent.mkdir(parents=True)
    old.write_text(json.dumps({"shipped": "early"}))
    made = table({"shipped": "late"})
    made.measure("measured", {"ours": takes(1.0)}, 1)
    made.save()
    assert table({"shipped": "late"}).choices == {"shipped": "late", "measured": "ours"}
    assert json.loads(old.read_text()) == {"shipped": "early"}


def test_tables_keep_each_others_choices(table):
    one, other = table(), table()
    one.measure("one", {"ours": takes(1.0)}, 1)
    other.measure("other", {"ours": takes(1.0)}, 1)
    one.save()
    other.save()
    one.measure("more", {"ours": takes(1.0)}, 1)
    one.save()
    assert set(table().choices) == {"one", "other", "more"}


def test_tables_that_save_at_once_keep_each_others_choices(table, monkeypatch, tmp_path):
    tables = [table() for _ in range(6)]
    read = tune._kept

    def slow(file):
        found = read(file)
        time.sleep(0.01)  # the others come in between, where they can
        return found

    monkeypatch.setattr(tune, "_kept", slow)
    for i, made in enumerate(tables):
        made.measure(f"product {i}", {"ours": takes(1.0)}, 1)
    threads = [threading.Thread(target=made.save) for made in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(table().choices) == 6
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"product": 1}', "\udc80"])
def test_a_spoilt_file_is_told_and_replaced(table, tmp_path, caplog, text):
    file = tmp_path / "cache" / "measured" / "a_gpu_2.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode(errors="surrogateescape"))
    made = table({"shipped": "late"})
    assert made.choices == {"shipped": "late"}
    assert len(told(caplog)) == 1
    assert str(file) in told(caplog)[0]
    made.measure("product", {"ours": takes(1.0)}, 1)
    made.save()
    assert json.loads(file.read_text()) == {"product": "ours"}


def test_where_nothing_can_be_written_the_choice_stands(table, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file in the folder's place")
    made = table()
    made.measure("product", {"ours": takes(1.0)}, 1)
    caplog.clear()
    made.save()
    assert made.choices == {"product": "ours"}
    assert len(told(caplog)) == 1
    assert "not kept" in told(caplog)[0]


def test_a_candidate_that_fails_is_told_once_and_its_choice_is_not_kept(table, caplog):
    made, candidates = table(), {"library": takes(2.0), "ours": fails, "wide": takes(1.0)}
    for _ in range(2):
        assert made.measure("product", candidates, 1) == "wide"
    assert made.choices == {"product": "wide"}
    assert len(told(caplog)) == 1
    assert all(word in told(caplog)[0] for word in ("product", "ours", "no memory"))
    assert "and more" not in told(caplog)[0]
    made.measure("fine", {"library": takes(1.0)}, 1)
    made.keep("product", "library")  # chosen otherwise, of the same candidates
    made.save()
    assert made.choices["product"] == "library"
    assert table().choices == {"fine": "library"}


def test_a_tile_too_large_for_the_device_is_so_at_every_start(table, caplog):
    def too_large(_):
        raise tune._triton.TooLarge(131072, 101376, "shared memory")

    made, candidates = table(), {"library": takes(2.0), "ours": too_large}
    assert made.measure("product", candidates, 1) == "library"
    made.save()
    assert not told(caplog)
    assert table().choices == {"product": "library"}
    made.measure("other", candidates | {"wide": fails}, 1)
    made.save()
    assert len(told(caplog)) == 1
    assert set(table().choices) == {"product"}
    with pytest.raises(RuntimeError, match="no candidate runs"):
        made.measure("neither", {"ours": too_large}, 1)


def test_where_it_failed_is_told_to_who_asks(table, caplog):
    with caplog.at_level(logging.DEBUG):
        table().measure("product", {"library": takes(2.0), "ours": fails}, 1)
    assert any(r.levelno == logging.DEBUG and r.exc_info for r in caplog.records)


@pytest.mark.parametrize("names", [("library",), ("library", "ours", "wide")])
def test_where_every_candidate_fails_nothing_is_chosen(table, names, caplog):
    """RuntimeError: requests of that shape are not captured but run eagerly."""
    made = table()
    with pytest.raises(RuntimeError, match="product: no candidate runs: no memory") as raised:
        made.measure("product", dict.fromkeys(names, fails), 1)
    assert isinstance(raised.value.__cause__, ValueError)
    assert len(told(caplog)) == len(names)
    assert made.choices == made.measured == made.times == {}


def test_tuning_saves_what_was_measured_alone(table, monkeypatch):
    monkeypatch.setattr(FastOperators, "__init__", lambda self: None)
    ops = FastOperators()
    ops.table, saved = table({"shipped": "early"}), []
    monkeypatch.setattr(ops.table, "save", lambda: saved.append(dict(ops.table.measured)))
    with ops.tuning():
        ops.table.choices["nothing to measure"] = "library"
        assert ops.chosen("shipped", {}) == "early"
    assert not saved
    with ops.tuning():
        assert ops.chosen("product", {"ours": takes(1.0), "library": takes(2.0)}) == "ours"
    assert saved == [{"product": "ours"}]
