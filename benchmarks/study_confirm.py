# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The virtual-clock study beside runs of the real nodes, same seeds and delays as measured there.

For each handoff method a run, a study with its delays, and then this:

    phyai-ros up sim:=true task:=follow conveyor_speed:=0.04 handoff:=replace episodes:=4 \\
        seed:=5000 out:=runs/real_replace
    phyai-ros study --task follow --handoff replace --seed 5000 --episodes 4 \\
        --delay-from runs/real_replace/report.json --image-age-ms 25 --out runs/virtual_replace
    python benchmarks/study_confirm.py runs/real_replace runs/virtual_replace ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import record


def main() -> None:
    folders = [Path(word) for word in sys.argv[1:]]
    pairs = [
        {"handoff": (v := virtual(there))["handoff"], "real": real(here), "virtual": v}
        for here, there in zip(folders[::2], folders[1::2], strict=True)
    ]
    entry = record.row("study_confirmed", {"runs": pairs})
    entry["command"] = "python benchmarks/study_confirm.py (see there)"
    record.save("studies_confirmed.jsonl", entry)
    for pair in pairs:
        print(json.dumps(pair, indent=1))


def real(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    jerk = report["jerk"]
    return {
        "successes": report["success"]["count"],
        "episodes": report["success"]["of"],
        "starved_ticks": report["ticks"]["starved"],
        "delay_ticks": report["chunks"]["delay_ticks"]["mean"],
        "age_first": report["action_age"]["first"],
        "age_last": report["action_age"]["last"],
        **{f"{k}_jerk": None if jerk[k] is None else 1e3 * jerk[k] for k in BOTH},
    }


def virtual(folder: Path) -> dict[str, Any]:
    (entry,) = json.loads((folder / "study.json").read_text(encoding="utf-8"))["conditions"]
    keys = ("handoff", "successes", "episodes", "starved_ticks", "delay_ticks")
    keys += ("age_first", "age_last", "boundary_jerk", "interior_jerk")
    return {key: entry[key] for key in keys}


BOTH = ("boundary", "interior")

if __name__ == "__main__":
    main()
