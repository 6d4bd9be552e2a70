# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros info`` tells what is in the checkpoint, and refuses what cannot be used."""

import json
import os
import shutil
from pathlib import Path

import pytest

from phyai_ros.engine.policy import load_policy
from phyai_ros.tools.cli import main

GOLDEN = Path(
    os.environ.get("PHYAI_GOLDEN", Path(__file__).resolve().parents[3] / "shared" / "golden")
)
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden fixtures at {GOLDEN}")
FIXTURES = ("act", "diffusion", "diffusion_gn", "smolvla", "pi0", "pi05", "pi0_openpi")


def info(capsys, checkpoint, *words):
    status = main(["info", "--checkpoint", str(checkpoint), *words])
    shown = capsys.readouterr()
    return status, shown.out, " ".join(shown.err.split())


@pytest.mark.parametrize("fixture", FIXTURES)
def test_it_says_what_the_loaded_policy_says(capsys, fixture):
    status, out, _ = info(capsys, GOLDEN / fixture, "--json")
    assert status == 0
    told, policy = json.loads(out), load_policy(GOLDEN / fixture)
    spec = policy.spec
    assert told["family"] == spec.family
    (only,) = told["embodiments"]
    assert [c["key"] for c in only["cameras"]] == list(spec.cameras)
    assert only["state_names"] == list(spec.state_names)
    assert only["horizon"] == spec.horizon
    model = policy.adapter.model
    tensors = [*model.parameters(), *model.buffers()]
    held = sum(t.numel() * t.element_size() for t in tensors)
    assert told["weights_in_memory_bytes"]["float32"] == held
    assert told["weight_file_bytes"] == (GOLDEN / fixture / "model.safetensors").stat().st_size


def test_the_table_names_cameras_columns_and_ranges(capsys):
    status, out, _ = info(capsys, GOLDEN / "act")
    assert status == 0
    for word in (
        "act", "observation.images.top", "64 x 96", "observation.state.6", "MEAN_STD",
        "the policy takes no instruction", "10 rows a chunk", "not said by the checkpoint",
    ):  # fmt: skip
        assert word in out


@pytest.mark.parametrize(
    ("fixture", "steps", "says"),
    [
        ("act", None, "rate not said by the checkpoint; one pass of the network\n"),
        ("pi05", 1, "; one pass of the network"),
        ("pi05", 2, "; 2 denoising steps"),
    ],
)
def test_a_network_that_answers_at_once_has_no_denoising_steps(
    capsys, tmp_path, fixture, steps, says
):
    checkpoint = shutil.copytree(GOLDEN / fixture, tmp_path / fixture)
    file = checkpoint / "config.json"
    if steps is not None:
        config = {**json.loads(file.read_text()), "num_inference_steps": steps}
        file.write_text(json.dumps(config))
    _, out, _ = info(capsys, checkpoint)
    assert says in out
    assert "1 denoising" not in out


def test_every_embodiment_is_told_unless_one_is_named(capsys):
    _, out, _ = info(capsys, GOLDEN / "groot_n17", "--json")
    tags = [e["embodiment"] for e in json.loads(out)["embodiments"]]
    assert {"libero_sim", "new_embodiment"} < set(tags)
    _, out, _ = info(capsys, GOLDEN / "groot_n17", "--json", "--embodiment", "libero_sim")
    assert [e["embodiment"] for e in json.loads(out)["embodiments"]] == ["libero_sim"]
    status, _, err = info(capsys, GOLDEN / "groot_n17", "--embodiment", "mars_rover")
    assert status == 1
    assert "mars_rover" in err
    assert "libero_sim" in err


def test_a_checkpoint_that_loading_would_refuse_is_refused(capsys, tmp_path):
    checkpoint = shutil.copytree(GOLDEN / "act", tmp_path / "act")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "dim_model": 64}))
    status, _, err = info(capsys, checkpoint)
    assert status == 1
    assert "expected shape" in err
    status, _, err = info(capsys, tmp_path / "absent")
    assert status == 1
    assert "no such directory" in err
    status, _, err = info(capsys, GOLDEN / "act", "--family", "pi0")
    assert status == 1


@pytest.mark.parametrize(
    "command", [("info",), ("check",), ("init-robot", "--out", "{folder}/a.yaml")]
)
@pytest.mark.parametrize(("checkpoint", "own"), [("act", "act"), ("pi05_openpi", "pi05")])
def test_a_checkpoint_of_another_family_than_named_is_refused_by_that(
    capsys, tmp_path, command, checkpoint, own
):
    """Its weights were named one by one as missing, as if the file were to be changed."""
    words = [word.format(folder=tmp_path) for word in command]
    words += ["--checkpoint", str(GOLDEN / checkpoint), "--family", "smolvla"]
    words += ["--json", str(tmp_path / "result.json")] if command == ("check",) else []
    assert main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"family 'smolvla' asked for, but this is '{own}': name that or none" in said
    assert "missing" not in said


def test_a_warning_about_a_checkpoint_is_said_once(capsys, caplog, tmp_path):
    """It is built in every precision; four times the same words would be read by nobody."""
    checkpoint = shutil.copytree(GOLDEN / "pi05", tmp_path / "pi05")
    file = checkpoint / "policy_preprocessor.json"
    content = json.loads(file.read_text())
    relative = "relative_actions_processor"
    content["steps"] = [s for s in content["steps"] if s["registry_name"] != relative]
    file.write_text(json.dumps(content))
    assert info(capsys, checkpoint)[0] == 0
    said = [r.getMessage() for r in caplog.records if "older LeRobot" in r.getMessage()]
    assert len(said) == 1
    assert str(file) in said[0]
