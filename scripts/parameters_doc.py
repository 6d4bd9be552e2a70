# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Writes docs/parameters.md from the parameters that the nodes and the launch file declare.

    python scripts/parameters_doc.py [--check]

--check: exit 1 where the file on disk is not what would be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from phyai_ros.nodes import graph, handoff_node, overlay_node, policy_node, sim_node
from phyai_ros.nodes.params import Parameter

FILE = Path(__file__).resolve().parent.parent / "docs" / "parameters.md"
HEAD = """# Parameters
Written by `python scripts/parameters_doc.py` from what the code declares; do not edit by hand.

A launch argument is given as `name:=value` to `ros2 launch phyai_ros policy.launch.py` or to
`phyai-ros up`; a node parameter as `--ros-args -p name:=value`. A value outside the allowed set is
refused at start, by name.
"""


def document() -> str:
    parts = [HEAD, "## Launch arguments\n", _table(_argument(a) for a in graph.ARGUMENTS)]
    for module in (policy_node, handoff_node, overlay_node, sim_node):
        name = module.__name__.rsplit(".", 1)[1]
        parts += [f"\n## {name}\n", _table(_parameter(p) for p in module.PARAMETERS)]
    return "\n".join(parts)


def _argument(argument: graph.Argument) -> tuple[str, str, str, str]:
    return argument.name, _shown(argument.default), argument.allowed(), argument.description


def _parameter(parameter: Parameter) -> tuple[str, str, str, str]:
    return parameter.name, _shown(parameter.default), parameter.allowed(), parameter.description


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "(empty)" if value == "" else str(value)


def _table(rows: Iterable[tuple[str, str, str, str]]) -> str:
    lines = ["| name | default | allowed | meaning |", "|---|---|---|---|"]
    for name, default, allowed, meaning in rows:
        cells = (text.replace("|", "\\|") for text in (default, allowed, meaning))
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    text = document()
    if "--check" in sys.argv[1:]:
        return 0 if FILE.is_file() and FILE.read_text() == text else 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
