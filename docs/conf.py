# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Sphinx: the pages of docs/ and the API from the docstrings. ``make docs`` builds them."""

import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import _docstrings  # noqa: E402 - lies beside this file

project = "phyai_ros"
author = "the phyai_ros authors"
copyright = "2026, the phyai_ros authors"  # noqa: A001 - Sphinx reads this name
release = version = ElementTree.parse(ROOT / "package.xml").findtext("version", "")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"phyai_ros {release}"
html_show_sourcelink = False
html_extra_path = ["foxglove_layout.json", "plotjuggler_layout.xml"]

myst_heading_anchors = 3  # links to headings, as code hosts make them
autosummary_generate = True
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
autodoc_mock_imports = ["triton"]  # comes with CUDA builds of torch only
# Two rooms may each have a World; annotations name them without their module.
suppress_warnings = ["ref.python"]


def setup(app):
    app.connect("autodoc-process-docstring", _docstrings.process)
