# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What people read is what was written: no text is markup, an emoji's name, an order to the
terminal."""

from __future__ import annotations

import ast
import io
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from phyai_ros.tools import check, console, progress
from phyai_ros.tools.check_rows import Row
from phyai_ros.tools.console import DataConsole, labelled, say

PACKAGE = Path(console.__file__).parents[1]
WILD = "/data/:x:/run[1]/[/red]/[bold]\x1b[2J"
SHOWN = WILD.replace("\x1b", "\N{REPLACEMENT CHARACTER}")


def printed(what, **style):
    file = io.StringIO()
    DataConsole(file=file, width=200, force_terminal=False).print(what, **style)
    return file.getvalue()


def test_a_string_stands_as_it_is_wherever_it_is_printed():
    assert printed(WILD) == f"{SHOWN}\n"
    assert printed(WILD, style="red") == f"{SHOWN}\n"
    table = Table(WILD, title=WILD)
    table.add_row(WILD)
    assert printed(table).count(SHOWN) == 3
    assert printed(labelled("label", "red", f" {WILD}")) == f"label {SHOWN}\n"
    table.add_row(Text(WILD, "red"))
    assert printed(Group(table)).count(SHOWN) == 4


def test_colours_stay_where_they_were():
    file = io.StringIO()
    terminal = DataConsole(file=file, width=200, force_terminal=True, color_system="standard")
    terminal.print(Text.assemble("\x1b\x1b", ("red", "red"), "\x1b"))
    spot = "\N{REPLACEMENT CHARACTER}"
    assert file.getvalue() == f"{spot}{spot}\x1b[31mred\x1b[0m{spot}\n"


def test_a_notice_and_an_error_say_a_path_as_it_is(capsys):
    say("warning", WILD, ":x:")
    console.fail(WILD)
    assert capsys.readouterr().err == f"[:x:] {SHOWN}\nerror: {SHOWN}\n"


def test_the_table_of_check_says_a_path_as_it_is(capsys):
    check._show([Row("usable", WILD, False, note=WILD)], console.results(300))
    assert capsys.readouterr().out.count(SHOWN) == 2


def test_the_line_of_a_run_at_work_takes_any_instruction():
    """Of a string rich makes markup: a closing tag ended the run in a traceback."""
    file = io.StringIO()
    terminal = DataConsole(file=file, width=200, force_terminal=True)
    with progress.Progress(terminal) as line:
        line.starting(WILD)
    assert SHOWN in file.getvalue()


def test_nothing_is_printed_on_another_console():
    """Nor is a string made markup on the way. tools/console.py is the one place for both."""
    found = []
    for file in sorted(set(PACKAGE.rglob("*.py")) - {Path(console.__file__)}):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called in {"Console", "from_markup", "render_markup"}:
                    found.append(f"{file.name}:{node.lineno}: {called}")
    assert not found
