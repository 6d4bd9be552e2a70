# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How the project's pictures look: matplotlib settings that they share."""

INK = "#23303d"
FAINT = "#8c98a4"
LINES = ("#1f6fb2", "#e4812a", "#2f9e63", "#c8413f", "#7a5bb5", "#0f9aa8", "#8b6b4e", "#b5528f")
STYLE = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#c3cbd3",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#eef1f4",
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}
