# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""This package's docstrings as reStructuredText: prose in which a line ``name: what it is`` begins
an entry. Entries become list items, and what prose means literally is no markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_ENTRY = re.compile(r"([a-z_]\w*(?:\.\w+)*(?:, [a-z_]\w*)*): (.*)")
_CODE = re.compile(r"(``.+?``)")
_MARKUP = re.compile(r"([*|`])|(?<=\w)_(?!\w)")


def literal(text: str) -> str:
    """Prose whose stars, bars and trailing underscores mean themselves."""
    parts = _CODE.split(text)
    parts[::2] = [_MARKUP.sub(lambda match: f"\\{match.group()}", part) for part in parts[::2]]
    return "".join(parts)


def restructured(lines: Sequence[str]) -> Iterator[str]:
    within = False
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if entry:
            if not within:
                yield ""
            yield f"* **{literal(entry.group(1))}**: {literal(entry.group(2))}"
            within = True
        elif within and line.strip():
            yield f"  {literal(line.strip())}"
        else:
            within = False
            yield literal(line)


def process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Sphinx's autodoc-process-docstring."""
    lines[:] = restructured(lines)
