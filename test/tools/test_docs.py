# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Pages for people: every link leads somewhere, every page is in the contents, one version."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)


def anchors(page):
    """As code hosts and MyST make them of headings."""
    text = FENCE.sub("", page.read_text())
    found = set()
    for heading in re.findall(r"^#{1,6} +(.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_into_this_repository_leads_somewhere(page):
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue  # another host's; not asked from here
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.is_relative_to(ROOT), f"{page.name}: {target} leaves the repository"
        assert path.exists(), f"{page.name}: {target} does not exist"
        if anchor:
            assert anchor in anchors(path), f"{page.name}: {target}: no such heading"


def test_every_page_is_in_the_contents():
    contents = (ROOT / "docs" / "index.md").read_text()
    listed = {word for block in FENCE.findall(contents) for word in block.split()}
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or page.stem in listed, f"docs/index.md lacks {page.stem}"


def test_one_version_everywhere():
    version = ElementTree.parse(ROOT / "package.xml").findtext("version")
    setup = re.search(r"^version = (.*)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE).group(1)
    newest = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    declared = re.search(r"version \*\*([\d.]+)\*\*", (ROOT / "QUALITY_DECLARATION.md").read_text())
    assert setup == newest.group(1) == declared.group(1) == version


def test_docstrings_become_lists_and_literal_text():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import _docstrings
    finally:
        sys.path.remove(str(ROOT / "docs"))
    lines = [
        "One moment.",
        "",
        "images: key -> uint8 [*shape],",
        "    RGB. ``a*b``",
        "type_: x|y",
        "",
    ]
    assert list(_docstrings.restructured(lines)) == [
        "One moment.",
        "",
        "",
        r"* **images**: key -> uint8 [\*shape],",
        "  RGB. ``a*b``",
        r"* **type\_**: x\|y",
        "",
    ]
