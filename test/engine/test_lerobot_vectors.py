# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""State and action vectors of LeRobot checkpoints: relative actions to the bit, there and back."""

import json
import shutil

import numpy as np
import pytest
from golden import GOLDEN, cases, needs_golden, tensors

from phyai_ros.engine.models.lerobot import read_layout
from phyai_ros.engine.models.lerobot_vectors import Vectors
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation, PolicyError
from phyai_ros.tools import check_inputs

pytestmark = needs_golden


def checkpoint(folder, modes=None, **relative):
    """The ACT fixture with a relative-action step, and other modes where given."""
    root = shutil.copytree(GOLDEN / "act", folder / "act")
    for name in ("policy_preprocessor.json", "policy_postprocessor.json"):
        content = json.loads((root / name).read_text())
        for step in content["steps"]:
            if modes and "norm_map" in step.get("config", {}):
                step["config"]["norm_map"] = modes
        if name == "policy_preprocessor.json":
            step = {"registry_name": "relative_actions_processor", "config": relative}
            content["steps"].insert(2, step)
        (root / name).write_text(json.dumps(content))
    return root


def at(state) -> Observation:
    return Observation({}, np.concatenate([np.asarray(state), np.zeros(3)]), "")


def test_relative_actions_are_those_of_the_reference(tmp_path):
    extra = cases("preprocess/normalisation")["extra"]
    data = {k: v.numpy() for k, v in tensors("preprocess/normalisation").items()}
    identity = dict.fromkeys(("VISUAL", "STATE", "ACTION"), "IDENTITY")
    root = checkpoint(
        tmp_path, identity, enabled=True, action_names=extra["action_names"],
        exclude_joints=extra["exclude_joints"],
    )  # fmt: skip
    vectors = Vectors(read_layout(root))
    actions = data["action_normalised"]
    observations = [at(state) for state in data["state_raw"][: len(actions)]]
    relative = data["lerobot.relative_actions"]
    absolute = vectors.decode(relative, observations)
    np.testing.assert_array_equal(np.stack(absolute), data["lerobot.absolute_actions"])
    for chunk, observation, expected in zip(actions, observations, relative, strict=True):
        np.testing.assert_array_equal(vectors.encode(chunk, observation, 7), expected)


@pytest.mark.parametrize("relative", [{"enabled": False}, {"enabled": True}])
def test_encode_is_the_inverse_of_decode(tmp_path, relative):
    vectors = Vectors(read_layout(checkpoint(tmp_path, **relative)))
    rng = np.random.default_rng(0)
    observation = at(rng.normal(size=7))
    normalised = rng.normal(size=(1, 4, 9)).astype(np.float32)
    (actions,) = vectors.decode(normalised, [observation])
    assert actions.shape == (4, 7)
    assert actions.dtype == np.float64
    back = vectors.encode(actions, observation, 9)
    np.testing.assert_allclose(back[:, :7], normalised[0, :, :7], rtol=0, atol=1e-5)
    assert not back[:, 7:].any()
    other = vectors.decode(normalised, [at(rng.normal(size=7))])[0]
    assert np.array_equal(other, actions) != relative["enabled"]


def test_relative_actions_need_a_state_as_long(tmp_path):
    root = checkpoint(tmp_path, enabled=True)
    content = json.loads((root / "config.json").read_text())
    del content["input_features"]["observation.state"]
    (root / "config.json").write_text(json.dumps(content))
    with pytest.raises(PolicyError, match=r"relative actions need a state.*\(7\), found 0"):
        Vectors(read_layout(root))


def add_features(root, side, **features):
    content = json.loads((root / "config.json").read_text())
    for key, (kind, size) in features.items():
        content[side][key.replace("__", ".")] = {"type": kind, "shape": [size]}
    (root / "config.json").write_text(json.dumps(content))


def test_vectors_that_lerobots_models_do_not_read_are_not_asked_for(tmp_path):
    """A data set's other vectors (ALOHA's efforts, say) are STATE and ACTION features of the
    config; the models look at observation.state and action."""
    root = checkpoint(tmp_path, enabled=False)
    plain = load_policy(GOLDEN / "act")
    add_features(
        root, "input_features", observation__effort=("STATE", 5), observation__goal=("ENV", 2)
    )
    add_features(root, "output_features", action__raw=("ACTION", 4))
    policy = load_policy(root)
    assert policy.spec.state_names == plain.spec.state_names
    assert policy.spec.action_names == plain.spec.action_names
    (observation,) = check_inputs.observations(plain.spec, 1)
    np.testing.assert_array_equal(
        policy.infer(observation).actions, plain.infer(observation).actions
    )


@pytest.mark.parametrize("side", ["input_features", "output_features"])
def test_without_the_vector_that_is_read_the_features_there_are_named(tmp_path, side):
    root = shutil.copytree(GOLDEN / "pi0", tmp_path / "pi0")
    content = json.loads((root / "config.json").read_text())
    key, other = ("observation.state", "observation.q") if side[0] == "i" else ("action", "move")
    content[side][other] = content[side].pop(key)
    (root / "config.json").write_text(json.dumps(content))
    kind = content[side][other]["type"]
    says = f"config.json: {side} needs '{key}' of type {kind}.*'{other}' of type {kind}"
    with pytest.raises(PolicyError, match=says):
        load_policy(root)


@pytest.mark.parametrize(
    ("names", "relative"),
    [
        (["motors"], [True] * 7),  # a data set that names its columns in a group
        (["gripper", "a"], [False] + [True] * 6),
        ([*"abcdef", "gripper", "more"], [True] * 6 + [False]),
    ],
)
def test_names_that_are_not_one_a_column_count_as_lerobot_counts_them(tmp_path, names, relative):
    root = checkpoint(tmp_path, enabled=True, action_names=names, exclude_joints=["gripper"])
    layout = read_layout(root)
    assert list(layout.relative_mask()) == relative
    specs = layout.action_specs()
    assert [flag for s in specs for flag in [s.relative] * s.size] == relative
    assert {s.name.partition(".")[0] for s in specs} == {"action"}
    spread = np.concatenate([s.statistics["mean"] for s in specs])
    whole = read_layout(GOLDEN / "act").action_specs()[0].statistics["mean"]
    np.testing.assert_array_equal(spread, whole)


def test_names_that_nothing_uses_stand_in_nobodys_way(tmp_path):
    root = checkpoint(tmp_path, enabled=False, action_names=["motors"], exclude_joints=["gripper"])
    assert load_policy(root).spec.action_names == load_policy(GOLDEN / "act").spec.action_names


def test_a_switch_in_quotes_is_no_switch(tmp_path):
    root = checkpoint(tmp_path, enabled="false")
    with pytest.raises(PolicyError, match=r"relative_actions_processor: enabled: expected true or"):
        read_layout(root).relative_mask()
