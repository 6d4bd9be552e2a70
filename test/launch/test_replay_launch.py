# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""replay.launch.py plays a recorded bag to its end, and the policy answers what it sees there."""

import re
from pathlib import Path

BAGS = Path(__file__).resolve().parents[1] / "data" / "bags"
REPLAY = "replay.launch.py"


def test_the_golden_bag_is_played_to_its_end_and_answered(launch):
    result = launch(REPLAY, f"bag:={BAGS / 'gr00t'}", "rate:=0.5", "threads:=1")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    (played,) = re.findall(r"(\d+) messages on (.*)", said)
    assert int(played[0]) > 400
    assert "/camera/wrist/image_raw/compressed" in played[1]
    assert "_controller/commands" not in played[1]
    assert re.search(r"dry run, nothing is sent to \S+: command 1, shoulder_pan_joint", said), said
    assert said.count("process has finished cleanly") == 4  # both nodes, the wait and the player


def test_a_bag_that_does_not_fit_starts_no_process(launch):
    for words, part in (
        (["bag:=no/such/bag"], "no/such/bag"),
        ([f"bag:={BAGS / 'gr00t'}", "robot:=aloha", "model:=act"], "cam_high"),
    ):
        result = launch(REPLAY, *words)
        said = result.stdout + result.stderr
        assert result.returncode != 0
        assert part in said
        assert "process started" not in said
