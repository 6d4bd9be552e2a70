# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros check`` passes what is right and finds what is wrong."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from phyai_ros.engine.policy import load_policy
from phyai_ros.tools import check_rows
from phyai_ros.tools.check_statistics import altered
from phyai_ros.tools.cli import main

GOLDEN = Path(
    os.environ.get("PHYAI_GOLDEN", Path(__file__).resolve().parents[3] / "shared" / "golden")
)
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden fixtures at {GOLDEN}")
FIXTURES = (
    "act", "diffusion", "diffusion_gn", "smolvla", "pi0", "pi05", "pi0_openpi", "pi05_openpi",
    "groot_n17",
)  # fmt: skip


def check(tmp_path, *words):
    file = tmp_path / "result.json"
    words = ["check", "--json", str(file), "--batch", "1,3", *map(str, words)]
    return main(words), json.loads(file.read_text())


def failed(result) -> set[tuple[str, str]]:
    return {(row["check"], row["detail"]) for row in result["rows"] if not row["passed"]}


@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_family_passes_with_its_fixture(tmp_path, fixture):
    status, result = check(
        tmp_path, "--checkpoint", GOLDEN / fixture, "--fixture", GOLDEN / fixture
    )
    assert (status, failed(result)) == (0, set())
    assert result["passed"] is True
    kinds = [row["check"] for row in result["rows"]]
    for kind in ("load", "fixture", "path", "repeat", "condition", "statistics"):
        assert kind in kinds, kind
    measured = [row for row in result["rows"] if row["check"] in ("fixture", "path")]
    assert all(row["error"] <= row["limit"] <= 5e-5 for row in measured)


def test_bfloat16_is_judged_by_its_own_error(tmp_path):
    status, result = check(
        tmp_path, "--checkpoint", GOLDEN / "smolvla", "--fixture", GOLDEN / "smolvla",
        "--precision", "bfloat16",
    )  # fmt: skip
    assert (status, failed(result)) == (0, set())
    (recorded,) = [row for row in result["rows"] if row["check"] == "fixture"]
    assert 1e-4 < recorded["error"] <= recorded["limit"]


def test_the_table_is_for_people_and_a_dash_prints_json(tmp_path, capsys):
    words = ["check", "--checkpoint", str(GOLDEN / "act"), "--batch", "1"]
    assert main([*words, "--json", str(tmp_path / "c.json")]) == 0
    out = capsys.readouterr().out
    assert "cached, batch 1" in out
    assert "which the policy ignores" in out
    assert main([*words, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True


@pytest.fixture
def copy(tmp_path) -> Path:
    return Path(shutil.copytree(GOLDEN / "act", tmp_path / "act"))


def test_a_fixture_that_says_otherwise_is_a_breach(tmp_path, copy):
    arrays = load_file(copy / "cases.safetensors")
    arrays["case3.e2e.action_chunk"] *= 1.0001
    save_file(arrays, copy / "cases.safetensors")
    status, result = check(tmp_path, "--checkpoint", GOLDEN / "act", "--fixture", copy)
    assert (status, failed(result)) == (1, {("fixture", "case3")})


def test_another_weight_is_a_breach(tmp_path, copy):
    weights = load_file(copy / "model.safetensors")
    weights["model.action_head.bias"][0] += 0.01
    save_file(weights, copy / "model.safetensors")
    status, result = check(tmp_path, "--checkpoint", copy, "--fixture", GOLDEN / "act")
    assert (status, failed(result)) == (1, {("fixture", "case3")})


def test_a_checkpoint_that_cannot_be_used_is_a_breach_that_says_why(tmp_path, copy):
    weights = load_file(copy / "model.safetensors")
    del weights["model.action_head.bias"]
    save_file(weights, copy / "model.safetensors")
    status, result = check(tmp_path, "--checkpoint", copy)
    assert status == 1
    assert "action_head.bias" in result["rows"][-1]["note"]
    status, result = check(tmp_path, "--checkpoint", GOLDEN / "act", "--fixture", GOLDEN / "rtc")
    assert status == 1
    assert "no end-to-end case" in result["rows"][-1]["note"]


@pytest.mark.parametrize("robot", [None, "ur11"])
def test_people_read_a_refusal_once_and_programs_find_it_as_a_row(tmp_path, capsys, robot):
    """The second one comes after a check that passed, of which the table tells."""
    checkpoint, why = ("gr00t_ur10e_small", "ur11") if robot else ("absent", "no such directory")
    words = ["--checkpoint", checkpoint, *(("--robot", robot) if robot else ())]
    status, result = check(tmp_path, *words)
    shown = capsys.readouterr()
    assert status == 1
    assert why in result["rows"][-1]["note"]
    assert (result["rows"][-1]["check"], result["passed"]) == ("usable", False)
    assert " ".join(shown.err.split()).count(why) == 1
    assert why not in shown.out
    assert ("load" in shown.out) == bool(robot)
    assert "failed: 1" in shown.err


def test_a_robot_that_does_not_fit_is_a_breach_and_the_rest_goes_on(tmp_path):
    status, result = check(tmp_path, "--checkpoint", GOLDEN / "act", "--robot", "ur10e")
    assert (status, failed(result)) == (1, {("robot", "ur10e")})
    assert len(result["rows"]) > 8


def test_the_embedded_policy_fits_its_robot(tmp_path):
    status, result = check(
        tmp_path, "--checkpoint", "gr00t_ur10e_small", "--robot", "ur10e", "--model", "gr00t"
    )
    assert (status, failed(result)) == (0, set())
    assert ("robot", "ur10e") in {(r["check"], r["detail"]) for r in result["rows"]}


def test_a_model_that_no_robot_is_bound_to_is_not_passed_over(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        check(tmp_path, "--checkpoint", "gr00t_ur10e_small", "--model", "nonexistent.yaml")
    assert ended.value.code == 2
    assert "--model is bound to a robot: give --robot too" in capsys.readouterr().err


def rows_of(policy) -> set[tuple[str, str]]:
    rows = [*check_rows.fixed_inputs(policy, None, (1, 3)), *check_rows.conditions(policy)]
    return {(row.check, row.detail) for row in rows if not row.passed}


def test_a_prefix_kept_from_an_earlier_request_is_found():
    policy = load_policy(GOLDEN / "smolvla")
    assert rows_of(policy) == set()
    real, kept = policy.adapter.model.prefix, {}

    def stale(inputs, features):
        batch = len(inputs.state)
        if batch not in kept:
            kept[batch] = real(inputs, features)
        return kept[batch]

    policy.adapter.model.prefix = stale
    assert {("condition", "state"), ("condition", "instruction")} <= rows_of(policy)


def test_a_leak_between_requests_of_a_batch_is_found():
    policy = load_policy(GOLDEN / "smolvla")
    real = policy.adapter.model.predict

    def leaking(x, step, prefix, constants):
        v = real(x, step, prefix, constants)
        return v + 1e-3 * v.mean(dim=0, keepdim=True)

    policy.adapter.model.predict = leaking
    assert rows_of(policy) == {("path", "cached, batch 3")}


def test_stale_constants_are_found():
    policy = load_policy(GOLDEN / "smolvla")
    with torch.inference_mode():
        policy.adapter.model.action_time_mlp_in.bias.add_(0.1)
    assert ("path", "cached, batch 1") in rows_of(policy)
    policy.runner.refresh()
    assert rows_of(policy) == set()


def test_randomness_is_found():
    policy = load_policy(GOLDEN / "act")
    real = policy.adapter.model.predict

    def shaking(x, step, prefix, constants):
        actions = real(x, step, prefix, constants)
        return actions + 1e-7 * torch.rand_like(actions)

    policy.adapter.model.predict = shaking
    assert ("repeat", "cached, nothing changed") in rows_of(policy)


def test_a_condition_that_is_used_though_said_to_be_ignored_is_found():
    policy = load_policy(GOLDEN / "act")
    policy.adapter.spec = check_rows.replace(policy.spec, ignores=("instruction", "state"))
    assert rows_of(policy) == {("condition", "state")}


@pytest.mark.parametrize("side", ["state", "action"])
@pytest.mark.parametrize("fixture", ["act", "pi05_openpi", "groot_n17"])
def test_only_the_statistics_of_one_side_are_altered(tmp_path, fixture, side):
    changed = altered(GOLDEN / fixture, side, tmp_path)
    assert changed
    for file in changed:
        there = tmp_path / file.relative_to(GOLDEN / fixture)
        assert there.read_bytes() != file.read_bytes()
    files = [p for p in (GOLDEN / fixture).rglob("*") if p.is_file() and p not in changed]
    assert "config.json" in {p.name for p in files}
    for file in files:
        there = tmp_path / file.relative_to(GOLDEN / fixture)
        assert not there.is_symlink()  # which could lead out of the checkpoint
        assert there.read_bytes() == file.read_bytes()
    if fixture == "act":
        before, after = load_file(changed[-1]), load_file(tmp_path / changed[-1].name)
        moved = {k for k in before if not torch.equal(before[k], after[k])}
        assert moved
        assert all(k.startswith(("action", "observation")[side == "state"]) for k in moved)
        assert not any("images" in k for k in moved)


@pytest.mark.parametrize("batches", ["0", "1,x", "-1"])
def test_batch_sizes_are_whole_and_positive(batches):
    with pytest.raises(SystemExit) as end:
        main(["check", "--checkpoint", str(GOLDEN / "act"), f"--batch={batches}"])
    assert end.value.code == 2


def legacy(root) -> Path:
    """ACT as LeRobot saved it before its processor files."""
    shutil.copytree(GOLDEN / "act", root)
    weights = load_file(root / "model.safetensors")
    for side, pattern in (
        ("normalize_inputs", "*_normalizer_processor.safetensors"),
        ("unnormalize_outputs", "*_unnormalizer_processor.safetensors"),
    ):
        (file,) = root.glob(pattern)
        for key, value in load_file(file).items():
            feature, statistic = key.rsplit(".", 1)
            weights[f"{side}.buffer_{feature.replace('.', '_')}.{statistic}"] = value
    save_file(weights, root / "model.safetensors")
    for file in root.glob("policy_p*"):
        file.unlink()
    return root


def named_otherwise(root) -> Path:
    """A checkpoint whose steps keep their statistics in files of other names."""
    shutil.copytree(GOLDEN / "act", root)
    for name in ("policy_preprocessor", "policy_postprocessor"):
        content = json.loads((root / f"{name}.json").read_text())
        for i, step in enumerate(s for s in content["steps"] if s.get("state_file")):
            (root / step["state_file"]).rename(root / f"{name}_numbers_{i}.safetensors")
            step["state_file"] = f"{name}_numbers_{i}.safetensors"
        (root / f"{name}.json").write_text(json.dumps(content))
    return root


@pytest.mark.parametrize("layout", [legacy, named_otherwise])
def test_statistics_are_found_wherever_a_layout_keeps_them(tmp_path, layout):
    status, result = check(tmp_path, "--checkpoint", layout(tmp_path / "made"))
    assert (status, failed(result)) == (0, set())
    sides = [row["detail"] for row in result["rows"] if row["check"] == "statistics"]
    assert sides == ["state", "action"]


@pytest.mark.parametrize(
    ("end", "shown"), [("[/x]", "[/x]"), ("\x1b[31m", "\N{REPLACEMENT CHARACTER}[31m")]
)
def test_names_are_shown_as_they_are_and_command_nothing(tmp_path, copy, capsys, end, shown):
    """To the table's library some are markup, to a terminal some are commands."""
    content = json.loads((copy / "config.json").read_text())
    key = "observation.images.top"
    features = content["input_features"]
    content["input_features"] = {f"{k}{end}" if k == key else k: v for k, v in features.items()}
    (copy / "config.json").write_text(json.dumps(content))
    file = next(copy.glob("*_normalizer_processor.safetensors"))
    arrays = load_file(file)
    save_file({k.replace(key, f"{key}{end}"): v for k, v in arrays.items()}, file)
    words = ["--checkpoint", str(copy)]
    main(["check", *words, "--batch", "1", "--json", str(tmp_path / "c.json")])
    assert f"image of {key}{shown}" in capsys.readouterr().out
    assert main(["info", *words]) == 0
    assert f"{key}{shown}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda cases, arrays: arrays.pop("case3.e2e.action_chunk"),
            "no tensor 'e2e.action'; ther",
        ),
        (
            lambda cases, arrays: cases.append({"id": 7}),
            "expected objects with a name, found {'id'",
        ),
        (lambda cases, arrays: cases.append(7), "expected objects with a name, found 7"),
    ],
)
def test_a_fixture_of_which_something_is_missing_is_told_by_name(tmp_path, copy, damage, says):
    content = json.loads((copy / "cases.json").read_text())
    arrays = load_file(copy / "cases.safetensors")
    damage(content["cases"], arrays)
    (copy / "cases.json").write_text(json.dumps(content))
    save_file(arrays, copy / "cases.safetensors")
    status, result = check(tmp_path, "--checkpoint", GOLDEN / "act", "--fixture", copy)
    assert status == 1
    assert says in result["rows"][-1]["note"]
