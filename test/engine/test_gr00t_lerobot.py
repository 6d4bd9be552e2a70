# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T as lerobot saves it gives the actions of the same weights in Isaac-GR00T's layout."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from golden import GOLDEN, needs_golden
from gr00t_case import FIXTURE, case_info, load_e2e
from safetensors.torch import load_file, save_file

from phyai_ros.engine.models.gr00t_n17.read import EMBEDDING, HEAD
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError
from phyai_ros.tools.check_statistics import altered

pytestmark = needs_golden
SOURCE = GOLDEN / FIXTURE


def read(name):
    return json.loads((SOURCE / name).read_text())


def convert(root, case, *, flat=False):
    """The fixture in lerobot's own layout: keys under _groot_model., the sidecars in the steps."""
    info, kwargs = case_info(case), read("processor_config.json")["processor_kwargs"]
    tag = info["embodiment_tag"]
    modality, statistics = kwargs["modality_configs"][tag], read("statistics.json")[tag]
    weights = {}
    for path in SOURCE.glob("model-*.safetensors"):
        weights |= {f"_groot_model.{k}": v for k, v in load_file(path).items()}
    root.mkdir()
    save_file(weights, root / "model.safetensors")
    for name in ("architecture.json", "tokenizer.json", "preprocessor_config.json"):
        (root / name).write_text((SOURCE / name).read_text())
    states = sum(len(v["mean"]) for v in statistics["state"].values())
    actions = sum(len(v["mean"]) for v in statistics["action"].values())
    cameras = modality["video"]["modality_keys"]
    visual = {"type": "VISUAL", "shape": [3, 40, 64]}
    config = {
        "type": "groot",
        "base_model_path": str(SOURCE),
        "chunk_size": 40,
        "n_action_steps": 40,
        "input_features": {
            **{f"observation.images.{key}": visual for key in cameras},
            "observation.state": {"type": "STATE", "shape": [states]},
        },
        "output_features": {"action": {"type": "ACTION", "shape": [actions]}},
    }
    (root / "config.json").write_text(json.dumps(config))
    pack = {
        "embodiment_tag": tag,
        "embodiment_mapping": read("embodiment_id.json"),
        "valid_action_horizon": len(modality["action"]["delta_indices"]),
        "video_modality_keys": cameras,
        "formalize_language": True,
        "clip_outliers": True,
    }
    shared = {"modality_config": modality, "raw_stats": statistics, "use_percentiles": True}
    decode = {"use_relative_action": True, "action_decode_transform": None, **shared}
    if tag == "libero_sim":
        decode["action_decode_transform"] = "libero"
    image_keys = ("image_crop_size", "image_target_size", "shortest_image_edge", "crop_fraction")
    encode = {k: kwargs[k] for k in (*image_keys, "use_albumentations")}
    steps = [
        {"registry_name": "groot_n1_7_pack_inputs_v1", "config": pack},
        {"registry_name": "groot_n1_7_vlm_encode_v1", "config": encode},
    ]
    if not flat:
        pack |= shared
    last = {"registry_name": "groot_n1_7_action_decode_v1", "config": decode}
    if flat:
        tables = {}
        for kind, key in (("state", "observation.state"), ("action", "action")):
            for name, source in (("min", "q01"), ("max", "q99")):
                values = [v for group in statistics[kind].values() for v in group[source]]
                tables[f"{key}.{name}"] = torch.tensor(values)
        save_file(tables, root / "statistics.safetensors")
        steps[0]["state_file"] = "statistics.safetensors"
        last = {
            "registry_name": "groot_action_unpack_unnormalize_v2",
            "config": {"libero_gripper_action": tag == "libero_sim"},
            "state_file": "statistics.safetensors",
        }
    (root / "policy_preprocessor.json").write_text(json.dumps({"steps": steps}))
    (root / "policy_postprocessor.json").write_text(json.dumps({"steps": [last]}))
    return root


@pytest.mark.parametrize("case", ["e2e0", "e2e1", "e2e2"])
def test_grouped_statistics(case, tmp_path):
    _, observation, expected = load_e2e(case)
    policy = load_policy(convert(tmp_path / "saved", case))
    assert policy.spec.family == "gr00t_n17"
    chunk = policy.infer(observation, expected["noise"])
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-5 * scale)


def test_one_vector_with_data_set_statistics(tmp_path):
    """e2e0 has no relative action, so its groups laid end to end are the same numbers."""
    _, observation, expected = load_e2e("e2e0")
    policy = load_policy(convert(tmp_path / "saved", "e2e0", flat=True))
    assert policy.spec.state_names[0] == "observation.state.0"
    chunk = policy.infer(observation, expected["noise"])
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-5 * scale)


def test_chunks_are_cut_as_lerobot_cuts_them(tmp_path):
    root = convert(tmp_path / "saved", "e2e2")
    config = json.loads((root / "config.json").read_text())
    (root / "config.json").write_text(json.dumps({**config, "n_action_steps": 5}))
    assert load_policy(root).spec.horizon == 5


def change(root, name, edit):
    content = json.loads((root / name).read_text())
    edit(content)
    (root / name).write_text(json.dumps(content))


@pytest.mark.parametrize("clip", [True, False])
def test_a_state_wider_than_its_groups_is_seen_whole(tmp_path, clip):
    """lerobot groups a state as the action is, and takes what is left to lie between 0 and 1."""
    narrow, observation, expected = load_e2e("e2e2")
    root = convert(tmp_path / "saved", "e2e2")
    wide = {"type": "STATE", "shape": [8]}
    change(root, "config.json", lambda c: c["input_features"].update({"observation.state": wide}))
    change(
        root,
        "policy_preprocessor.json",
        lambda c: c["steps"][0]["config"].update(clip_outliers=clip),
    )
    policy = load_policy(root)
    assert policy.spec.state_names[6:] == ("observation.state.0", "observation.state.1")
    assert policy.spec.action_dim == narrow.spec.action_dim
    assert policy.spec.state[0].statistics
    assert not policy.spec.state[-1].statistics  # nobody measured it
    whole = replace(observation, state=np.append(observation.state, [0.25, 3.0]))
    (state,) = policy.adapter.prepare([whole]).state[:, 0]
    np.testing.assert_allclose(state[6:8], [-0.5, 1.0 if clip else 5.0], atol=1e-6)
    assert not state[8:].any()
    (own,) = narrow.adapter.prepare([observation]).state[:, 0]
    if clip:
        np.testing.assert_array_equal(state[:6], own[:6])
    assert policy.infer(whole, expected["noise"]).actions.shape == expected["action"][0].shape


@pytest.mark.parametrize("width", [6, 12, 132])
def test_a_state_of_its_groups_or_of_the_models_width_has_no_rest(tmp_path, width):
    """A policy that was saved without a data set has the model's width as its state's."""
    _, observation, expected = load_e2e("e2e2")
    root = convert(tmp_path / "saved", "e2e2")

    def widen(config):
        config["input_features"]["observation.state"]["shape"] = [width]
        config["max_state_dim"] = width if width > 6 else 12

    change(root, "config.json", widen)
    chunk = load_policy(root).infer(observation, expected["noise"])
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-5 * scale)


@pytest.mark.parametrize("prefix", ["_groot_model.", ""])
def test_the_embedding_may_be_there_as_the_head_alone(tmp_path, prefix):
    """What GrootPolicy.save_pretrained writes: safetensors keeps one name of the tied weights."""
    _, observation, expected = load_e2e("e2e2")
    root = convert(tmp_path / "saved", "e2e2") if prefix else tmp_path / "isaac"
    if not prefix:
        shutil.copytree(SOURCE, root)
    for path in root.glob("model*.safetensors"):
        tensors = load_file(path)
        if prefix + EMBEDDING in tensors:
            tensors[prefix + HEAD] = tensors.pop(prefix + EMBEDDING)
            save_file(tensors, path)
    if not prefix:
        index = "model.safetensors.index.json"
        change(
            root, index, lambda c: c["weight_map"].update({HEAD: c["weight_map"].pop(EMBEDDING)})
        )
    chunk = load_policy(root, embodiment="new_embodiment").infer(observation, expected["noise"])
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-5 * scale)


def test_without_the_base_model_its_heads_are_asked_for_where_the_published_do_not_fit(tmp_path):
    root = convert(tmp_path / "saved", "e2e2")
    change(root, "config.json", lambda c: c.update(base_model_path="/nowhere/GR00T"))
    weights = load_file(root / "model.safetensors")
    one = "_groot_model.action_head."
    key = f"{one}action_encoder.W1.W"
    weights[key] = weights[key][..., :-1].contiguous()
    save_file(weights, root / "model.safetensors")
    with pytest.raises(
        PolicyError, match=r"base_model_path: the base model's config.json is needed"
    ):
        load_policy(root)


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("/nowhere/GR00T", True),
        ("nowhere/base", True),
        ("someone/their-gr00t", True),
        ("nvidia/GR00T-N1.7-3B", False),
        ("", False),
    ],
)
def test_without_the_base_model_what_is_assumed_is_said(tmp_path, caplog, base, said):
    root = convert(tmp_path / "saved", "e2e2")
    change(root, "config.json", lambda c: c.update(base_model_path=base, chunk_size=8))
    # The published 40 rows, whatever chunk_size says: too many for this fixture's table.
    with pytest.raises(PolicyError, match="action_horizon 40 is longer than the position table"):
        load_policy(root)
    assert (f"base_model_path {base} is not here" in caplog.text) == said


def test_a_tag_without_a_row_has_the_first_as_lerobot_trains_it(tmp_path, caplog):
    root = convert(tmp_path / "saved", "e2e2")
    pack = "groot_n1_7_pack_inputs_v1"

    def forget(content):
        (step,) = [s for s in content["steps"] if s["registry_name"] == pack]
        del step["config"]["embodiment_mapping"]["new_embodiment"]

    change(root, "policy_preprocessor.json", forget)
    policy = load_policy(root)
    assert policy.adapter.sidecars.embodiment_id == 0
    assert "embodiment_mapping has no 'new_embodiment'; weight row 0" in caplog.text


def test_refusals(tmp_path):
    root = convert(tmp_path / "saved", "e2e2")
    with pytest.raises(PolicyError, match="unknown embodiment 'gr1'; there are: new_embodiment"):
        load_policy(root, embodiment="gr1")
    steps = json.loads((root / "policy_preprocessor.json").read_text())["steps"]
    (root / "policy_preprocessor.json").write_text(json.dumps({"steps": steps[:1]}))
    with pytest.raises(PolicyError, match="no step 'groot_n1_7_vlm_encode_v1'"):
        load_policy(root)
    config = json.loads((root / "config.json").read_text())
    (root / "config.json").write_text(json.dumps({**config, "model_version": "n1.5"}))
    with pytest.raises(PolicyError, match=r"model_version 'n1.5'; expected n1.7"):
        load_policy(root)


@pytest.mark.parametrize(
    ("word", "sign"), [("libero", True), ("none", False), (None, False), ("auto", True)]
)
@pytest.mark.parametrize("flat", [False, True])
def test_what_the_config_says_of_the_gripper_goes_before_the_step(tmp_path, word, sign, flat):
    """lerobot writes config.json's ``action_decode_transform`` into the step that it has loaded."""
    _, observation, expected = load_e2e("e2e0")
    root = convert(tmp_path / "saved", "e2e0", flat=flat)
    own = {"embodiment_tag": "libero_sim", "action_decode_transform": word}
    change(root, "config.json", lambda c: c.update(own))
    gripper = load_policy(root).infer(observation, expected["noise"]).actions[:, -1]
    assert (set(gripper) <= {-1.0, 0.0, 1.0}) == sign


def test_another_word_for_the_gripper_is_refused(tmp_path):
    root = convert(tmp_path / "saved", "e2e2")
    change(root, "config.json", lambda c: c.update(action_decode_transform="flip"))
    with pytest.raises(PolicyError, match=r"action_decode_transform is 'flip'; known: auto, none"):
        load_policy(root)


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("policy_preprocessor.json", "normalize_min_max"),
        ("policy_postprocessor.json", "normalize_min_max"),
        ("policy_postprocessor.json", "clip_normalized_action"),
    ],
)
def test_steps_that_would_pass_raw_numbers_are_refused(tmp_path, file, key):
    root = convert(tmp_path / "saved", "e2e0", flat=True)
    load_policy(root)
    change(root, file, lambda c: c["steps"][0]["config"].update({key: False}))
    with pytest.raises(PolicyError, match=rf"{file}: groot_\w+.{key}: expected true, found False"):
        load_policy(root)


@pytest.mark.parametrize("side", ["state", "action"])
@pytest.mark.parametrize("flat", [False, True])
def test_the_check_finds_the_statistics(tmp_path, flat, side):
    """In the steps' description (``raw_stats``), or in a file that a step names."""
    _, observation, expected = load_e2e("e2e0")
    root = convert(tmp_path / "saved", "e2e0", flat=flat)
    assert altered(root, side, tmp_path / "other")
    before, after = (
        load_policy(r).infer(observation, expected["noise"]).actions
        for r in (root, tmp_path / "other")
    )
    assert not np.array_equal(before, after)
