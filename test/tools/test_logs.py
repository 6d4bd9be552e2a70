# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest

from phyai_ros.tools.logs import ChildLog


@pytest.fixture
def log(tmp_path):
    notices = []
    log = ChildLog(tmp_path / "logs" / "a.log", "a", lambda *n: notices.append(n))
    yield log, notices, tmp_path / "logs" / "a.log"
    log.close()


def test_everything_is_kept_and_only_trouble_is_shown(log):
    log, notices, file = log
    lines = [
        "[INFO] [1700000000.123456789] [policy_node]: loaded\n",
        "a plain line\n",
        "[WARN] [1700000000.2] [policy_node]: camera scene is late\n",
        "[ERROR] [1700000000.3] [policy_node]: configure failed:\n",
        "Traceback (most recent call last):\n",
        "ValueError: x\n",
        "[INFO] [1700000000.4] [policy_node]: fine again\n",
        "   nothing to see\n",
        "error: parameter 'rate' is -1\n",
    ]
    for line in lines:
        log.write(line.encode())
    assert file.read_text() == "".join(lines)
    assert notices == [
        ("warning", "camera scene is late", "a"),
        ("error", "configure failed:", "a"),
        ("error", "Traceback (most recent call last):", "a"),
        ("error", "ValueError: x", "a"),
        ("error", "error: parameter 'rate' is -1", "a"),
    ]


def test_colours_and_bytes_that_are_no_text_do_no_harm(log):
    log, notices, file = log
    log.write(b"\x1b[31m[FATAL] [1.0] [n]: \xff broken\x1b[0m\n")
    assert notices == [("error", "� broken", "a")]
    assert "\x1b" not in file.read_text()


def test_last_lines_are_shown_only_where_no_error_was(log):
    log, notices, file = log
    log.write("only this\n")
    log.show_tail_if_silent()
    assert notices == [("error", "only this", "a"), ("info", f"its whole log: {file}", "a")]
    notices.clear()
    log.write("error: that\n")
    notices.clear()
    log.show_tail_if_silent()
    assert notices == [("info", f"its whole log: {file}", "a")]


def test_a_stopping_child_is_not_quoted(log):
    log, notices, _ = log
    log.quiet = True
    log.write("error: interrupted\n")
    assert notices == []


def test_the_newest_error_is_one_line(log):
    log, _, _ = log
    log.write("[ERROR] [1.0] [n]: no such checkpoint: x\n")
    log.write("[INFO] [1.1] [n]: stopping\n")
    assert log.last_error == "no such checkpoint: x"
    for line in ("Traceback (most recent call last):\n", '  File "a", line 1\n', "KeyError: 'b'\n"):
        log.write(line)
    assert log.last_error == "KeyError: 'b'"
    log.write("a plain line\n")
    assert log.last_error == "KeyError: 'b'"


def test_a_disk_that_is_full_is_said_once_and_ends_nothing(tmp_path):
    notices = []
    (tmp_path / "a.log").symlink_to("/dev/full")
    full = ChildLog(tmp_path / "a.log", "a", lambda *n: notices.append(n))
    for number in range(2000):
        full.write(f"[INFO] [1700000000.1] [policy_node]: line {number}\n")
    full.write("[WARN] [1700000000.2] [policy_node]: camera scene is late\n")
    full.close()
    assert [text for _, text, _ in notices] == [
        f"{tmp_path / 'a.log'}: No space left on device; lines are lost until it can be written",
        "camera scene is late",
    ]
