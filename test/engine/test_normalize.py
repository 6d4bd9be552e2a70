# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every normalisation formula against the references' own results, to the bit."""

import shutil

import numpy as np
import pytest
from golden import cases, needs_golden, tensors
from safetensors.numpy import load_file, save_file

from phyai_ros.engine import embedded, normalize
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError

pytestmark = needs_golden


@pytest.fixture(scope="module")
def arrays():
    return {k: v.numpy() for k, v in tensors("preprocess/normalisation").items()}


def stats(arrays, key):
    prefix = f"stats.{key}."
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


@pytest.mark.parametrize("mode", ["MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10"])
def test_lerobot(arrays, mode):
    state = normalize.lerobot(mode, stats(arrays, "observation.state"), "stats")
    action = normalize.lerobot(mode, stats(arrays, "action"), "stats")
    raw = action.unnormalise(arrays["action_normalised"])
    np.testing.assert_array_equal(
        state.normalise(arrays["state_raw"]), arrays[f"lerobot.{mode}.state_normalised"]
    )
    np.testing.assert_array_equal(raw, arrays[f"lerobot.{mode}.action_unnormalised"])
    np.testing.assert_array_equal(
        action.normalise(raw), arrays[f"lerobot.{mode}.action_renormalised"]
    )


@pytest.mark.parametrize("mode", ["mean_std", "quantile"])
def test_openpi(arrays, mode):
    quantiles = mode == "quantile"
    state = normalize.openpi(stats(arrays, "observation.state"), "stats", quantiles=quantiles)
    action = normalize.openpi(stats(arrays, "action"), "stats", quantiles=quantiles)
    found = state.normalise(arrays["state_raw"].astype(np.float64))
    np.testing.assert_allclose(found, arrays[f"openpi.{mode}.state_normalised"], rtol=1e-5)
    found = action.unnormalise(arrays["action_normalised_padded"].astype(np.float64))
    np.testing.assert_allclose(
        found, arrays[f"openpi.{mode}.actions_unnormalised_padded"], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("clip", [True, False])
def test_groot_state(arrays, clip):
    low, high = normalize.statistics(stats(arrays, "observation.state"), "min_max", "stats")
    found = normalize.GrootRange(low, high, clip=clip).normalise(arrays["state_raw"])
    expected = arrays[f"groot.state_packed.clip_{str(clip).lower()}"]
    np.testing.assert_array_equal(found, expected[:, 0, :7])


def test_groot_action(arrays):
    low, high = normalize.statistics(stats(arrays, "action"), "min_max", "stats")
    found = normalize.GrootRange(low, high).unnormalise(arrays["action_normalised"])
    np.testing.assert_array_equal(found, arrays["groot.action_unnormalised_clipped"])


def test_statistics_refuse():
    with pytest.raises(PolicyError, match=r"stats.json:arm.*'q99' missing.*there are: q01"):
        normalize.statistics({"q01": [0.0]}, "quantiles", "stats.json:arm")
    with pytest.raises(PolicyError, match="expected 3 values, found 2"):
        normalize.statistics({"min": [0, 0], "max": [1, 1]}, "min_max", "stats.json", 3)
    with pytest.raises(PolicyError, match="not finite"):
        normalize.statistics({"min": [0.0], "max": [np.nan]}, "min_max", "stats.json")
    with pytest.raises(PolicyError, match="unknown normalisation 'zscore'"):
        normalize.lerobot("zscore", {}, "stats.json")


@pytest.mark.parametrize(
    ("mode", "given", "says"),
    [
        ("min_max", {"min": [0.0, 2.0], "max": [1.0, 1.0]}, r"column 1: expected 'min' <= 'max'"),
        ("quantiles", {"q01": [3.0], "q99": [1.0]}, r"column 0: expected 'q01' <= 'q99', found 3"),
        ("quantile10", {"q10": [[0.0], [1.0]], "q90": [[0.0], [0.5]]}, r"column 0, row 1: expect"),
        ("mean_std", {"mean": [0.0, 0.0], "std": [0.0, -1.0]}, r"'std', column 1: expected 0 or m"),
        ("min_max", {"min": [0.0, 1.0], "max": [1.0]}, r"shapes \[2\] and \[1\]"),
    ],
)
def test_statistics_that_would_mirror_a_column_are_refused(mode, given, says):
    with pytest.raises(PolicyError, match=rf"^stats.json: arm.*{says}"):
        normalize.statistics(given, mode, "stats.json: arm")


def test_the_refusal_of_a_checkpoint_names_the_file(tmp_path):
    root = shutil.copytree(embedded.find("pi05_ur10e_small"), tmp_path / "pi05")
    (file,) = root.glob("policy_preprocessor*.safetensors")
    given = load_file(file)
    given["observation.state.q01"][2] = 100.0
    save_file(given, file)
    with pytest.raises(PolicyError, match=rf"{file.name}: observation.state: .*column 2: .*'q99'"):
        load_policy(root)


def test_a_column_that_never_moved_is_no_fault():
    normalize.statistics({"min": [1.0], "max": [1.0]}, "min_max", "stats.json")
    normalize.statistics({"mean": [1.0], "std": [0.0]}, "mean_std", "stats.json")


LOW = np.array([-1.0, 0.5, 0.0, 0.0], np.float32)
HIGH = np.array([1.0, 0.5, 2e-10, 0.0], np.float32)  # a histogram leaves a constant this much
WIDE = (LOW.astype(np.float64), HIGH.astype(np.float64))
STEPS = (np.stack([LOW] * 5), np.stack([HIGH] * 5))


@pytest.mark.parametrize(
    ("normaliser", "stood"),
    [
        (normalize.LeRobotMeanStd(LOW, HIGH - LOW), [0.0, 0.0, 0.0]),
        (normalize.LeRobotRange(LOW, HIGH, halve_first=True), [-1.0, 0.0, -1.0]),
        (normalize.OpenPiMeanStd(WIDE[0], WIDE[1] - WIDE[0]), [0.0, 0.0, 0.0]),
        (normalize.OpenPiQuantile(*WIDE), [-1.0, -1.0, -1.0]),
        (normalize.GrootRange(LOW, HIGH, clip=False), [0.0, 0.0, 0.0]),
        (normalize.GrootRange(*STEPS, clip=False), [0.0, 0.0, 0.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_commands_of_columns_that_never_moved_are_as_in_training(normaliser, stood):
    """What the model was given there in training, however far a command is beside it."""
    wide = isinstance(normaliser, (normalize.OpenPiMeanStd, normalize.OpenPiQuantile))
    beside = np.repeat(LOW[None], 3, axis=0).astype(float if wide else np.float32)
    beside += 3e-4
    found = normaliser.as_trained(beside)
    assert found.dtype == beside.dtype
    np.testing.assert_allclose(found[:, 1:], [stood] * 3, atol=1e-3)
    np.testing.assert_array_equal(found[:, 0], normaliser.normalise(beside)[:, 0])
    # to the model those would be numbers that it never saw
    assert isinstance(normaliser, normalize.GrootRange) or normaliser.normalise(beside).max() > 100


def test_cases_are_all_covered(arrays):
    """A new array in the fixture must not pass unread."""
    known = ("stats.", "lerobot.", "openpi.", "groot", "state_raw", "action_normalised")
    assert all(name.startswith(known) for name in cases("preprocess/normalisation")["arrays"])
