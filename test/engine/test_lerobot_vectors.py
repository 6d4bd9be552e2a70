# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""State and action vectors of LeRobot checkpoints: relative actions to the bit, there and back."""

import json
import shutil

import numpy as np
import pytest
from golden import GOLDEN, cases, needs_golden, tensors

from phyai_ros.engine.models.lerobot import read_layout
from phyai_ros.engine.models.lerobot_vectors import Vectors
from phyai_ros.engine.types import Observation, PolicyError

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


def test_two_states_are_refused(tmp_path):
    root = checkpoint(tmp_path)
    content = json.loads((root / "config.json").read_text())
    content["input_features"]["observation.more"] = {"type": "STATE", "shape": [7]}
    (root / "config.json").write_text(json.dumps(content))
    with pytest.raises(PolicyError, match=r"at most one feature of type STATE.*observation\.more"):
        Vectors(read_layout(root))
