# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7 from raw images, state and words to robot units, and what a policy promises."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from golden import GOLDEN, cases, needs_golden, tensors
from gr00t_case import E2E_CASES, FIXTURE, load_e2e, observations

from phyai_ros.engine.models.gr00t_n17 import rotation
from phyai_ros.engine.models.gr00t_n17.adapter import chat, formalise
from phyai_ros.engine.models.gr00t_n17.codec import Codec
from phyai_ros.engine.models.gr00t_n17.sidecars import Sidecars
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Guidance, Observation, PolicyError

pytestmark = needs_golden


@pytest.mark.parametrize("name", E2E_CASES)
def test_end_to_end(name):
    policy, observation, expected = load_e2e(name)
    inputs = policy.adapter.prepare([observation])
    assert torch.equal(inputs.layout.ids, expected["input_ids"])
    assert torch.equal(inputs.layout.real.long(), expected["attention_mask"])
    grids = [[1, *grid] for grid in inputs.layout.grids]
    assert grids == expected["image_grid_thw"].tolist()
    assert torch.equal(inputs.patches, expected["pixel_values"])
    assert torch.equal(inputs.state, expected["state_model"])
    assert list(inputs.embodiments) == expected["embodiment_id"].tolist()
    chunk = policy.infer(observation, expected["noise"])
    rows, columns = expected["action_normalised"].shape[1:]
    scale = expected["action_normalised"].abs().max().item()
    np.testing.assert_allclose(
        chunk.normalised[:rows, :columns], expected["action_normalised"][0], atol=1e-5 * scale
    )
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-5 * scale)
    assert chunk.actions.dtype == np.float64
    assert chunk.actions.shape == (policy.spec.horizon, policy.spec.action_dim)


def test_spec():
    policy, _, _ = load_e2e("e2e2")
    spec = policy.spec
    assert (spec.family, spec.embodiment) == ("gr00t_n17", "new_embodiment")
    assert spec.cameras == ("front",)
    assert spec.state_names == (*(f"single_arm.{i}" for i in range(5)), "gripper")
    assert [f.relative for f in spec.action] == [True, False]
    assert (spec.horizon, spec.denoising_steps, spec.model_action_dim) == (8, 4, 18)


@pytest.mark.parametrize("case", cases("preprocess/prompts")["cases"] if GOLDEN.is_dir() else [])
def test_prompts(case):
    text = formalise(case["instruction"])
    assert text == case["groot_language"]
    assert (case["instruction"] or "Perform the task.") == case["groot_language_not_formalised"]
    assert chat(text, [1, 1]) == case["groot_chat_text_two_images"]


def test_grouped_layout_with_relative_poses():
    """State packing and decoding with a pose, relative joints and an absolute gripper."""
    arrays = {k: v.numpy() for k, v in tensors("preprocess/normalisation").items()}
    config = cases("preprocess/normalisation")["groot_grouped_config"]
    sidecars = Sidecars(
        embodiment="x", embodiments=("x",), embodiment_id=0,
        modality=config["modality_config"], statistics=config["raw_stats"], kwargs={},
        use_percentiles=config["use_percentiles"],
        use_relative_action=config["use_relative_action"],
        clip_outliers=True, formalize_language=True,
        where={"modality": "m", "statistics": "s"},
    )  # fmt: skip
    codec = Codec(sidecars, 16, 16, 7)
    states = arrays["groot_grouped.state_raw"]
    packed = np.stack([codec.encode_state(s) for s in states])
    np.testing.assert_array_equal(packed, arrays["groot_grouped.state_packed"][:, 0])
    actions = arrays["groot_grouped.action_normalised"]
    decoded = np.stack([codec.decode(a, s) for a, s in zip(actions, states, strict=True)])
    np.testing.assert_array_equal(decoded, arrays["groot_grouped.action_decoded"])
    again = np.stack([codec.encode(d, s) for d, s in zip(decoded, states, strict=True)])
    twice = np.stack([codec.decode(a, s) for a, s in zip(again, states, strict=True)])
    others = [*range(3), *range(9, 13)]  # random statistics clip the rotation of a real pose
    np.testing.assert_allclose(twice[..., others], decoded[..., others], atol=2e-5)


def test_poses_compose_and_differ_inversely():
    rng = np.random.default_rng(0)
    relative, reference = rng.normal(size=(5, 9)), rng.normal(size=9)
    absolute = rotation.compose(relative, reference)
    again = rotation.compose(rotation.difference(absolute, reference), reference)
    np.testing.assert_allclose(again, absolute, atol=1e-12)
    rows = absolute[:, 3:].reshape(5, 2, 3)
    identity = np.broadcast_to(np.eye(2), (5, 2, 2))
    np.testing.assert_allclose(rows @ rows.transpose(0, 2, 1), identity, atol=1e-12)


@pytest.mark.parametrize("size", [2, 8])
def test_a_request_does_not_depend_on_its_batch(size):
    """Prompts of different lengths: padding reaches no chunk."""
    policy, _, _ = load_e2e("e2e0")
    requests = observations(size)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(policy.adapter.noise_shape(size), generator=generator)
    together = policy.infer_batch(requests, noise)
    assert policy.adapter.prepare(requests).layout.padded
    for i, request in enumerate(requests):
        alone = policy.infer(request, noise[i])
        np.testing.assert_allclose(together[i].normalised, alone.normalised, atol=2e-5)


def test_unchanged_request_repeats_to_the_bit():
    policy, observation, expected = load_e2e("e2e0")
    first = policy.infer(observation, expected["noise"])
    second = policy.infer(observation, expected["noise"])
    np.testing.assert_array_equal(first.actions, second.actions)


def test_the_noise_sequence_is_seeded():
    policy, observation, _ = load_e2e("e2e0")
    chunks = [policy.infer(observation).actions for _ in range(2)]
    policy.warm_up()
    policy.seed(0)
    again = [policy.infer(observation).actions for _ in range(2)]
    np.testing.assert_array_equal(chunks, again)
    assert np.abs(chunks[0] - chunks[1]).max() > 1e-3


@pytest.mark.parametrize("changed", ["image", "state", "instruction", "statistics"])
def test_a_changed_condition_changes_the_actions(changed, tmp_path):
    policy, observation, expected = load_e2e("e2e0")
    before = policy.infer(observation, expected["noise"]).actions
    if changed == "image":
        images = {k: v.copy() for k, v in observation.images.items()}
        images["wrist_image"][:8, :8] ^= 255
        observation = dataclasses.replace(observation, images=images)
    elif changed == "state":
        observation = dataclasses.replace(observation, state=observation.state * np.float32(0.9))
    elif changed == "instruction":
        observation = dataclasses.replace(observation, instruction="open the drawer")
    else:
        root = tmp_path / "changed"
        shutil.copytree(GOLDEN / FIXTURE, root)
        statistics = json.loads((root / "statistics.json").read_text())
        low = statistics["libero_sim"]["action"]["x"]["q01"]
        statistics["libero_sim"]["action"]["x"]["q01"] = [low[0] - 0.5]
        (root / "statistics.json").write_text(json.dumps(statistics))
        policy = load_policy(root, embodiment="libero_sim")
    after = policy.infer(observation, expected["noise"]).actions
    assert np.abs(after - before).max() > 1e-4


@pytest.mark.parametrize("method", ["rtc_overlap", "rtc_identity", "rtc_vjp"])
def test_guidance_pulls_the_new_chunk_to_the_left_over(method):
    policy, observation, expected = load_e2e("e2e2")
    noise = expected["noise"]
    plain = policy.infer(observation, noise)
    other = policy.infer(observation, -noise).actions[:6]
    wish = Guidance(other, committed=3, method=method, execution_horizon=2)
    guided = policy.infer(observation, noise, wish)

    def gap(chunk):
        return np.abs(chunk.actions[:3] - other[:3]).max()

    assert gap(guided) < 0.5 * gap(plain)
    if method == "rtc_overlap":  # frozen rows do not move at all
        assert gap(guided) < 1e-5


def test_guidance_in_a_batch_leaves_the_others_alone():
    policy, observation, expected = load_e2e("e2e2")
    other = policy.infer(observation, -expected["noise"]).actions[:6]
    wish = Guidance(other, committed=3, method="rtc_identity", execution_horizon=2)
    noise = expected["noise"].repeat(2, 1, 1)
    both = policy.infer_batch([observation] * 2, noise, [None, wish])
    plain = policy.infer(observation, expected["noise"])
    guided = policy.infer(observation, expected["noise"], wish)
    np.testing.assert_allclose(both[0].normalised, plain.normalised, atol=1e-5)
    np.testing.assert_allclose(both[1].normalised, guided.normalised, atol=1e-5)


def bad(observation: Observation, kind: str) -> Observation:
    images, state = dict(observation.images), observation.state.copy()
    if kind == "camera missing":
        del images["image"]
    elif kind == "camera unknown":
        images["side"] = images["image"]
    elif kind == "float pixels":
        images["image"] = np.full((8, 8, 3), np.nan, np.float32)
    elif kind == "grey":
        images["image"] = images["image"][..., 0]
    elif kind == "state nan":
        state[1] = np.nan
    elif kind == "state short":
        state = state[:-1]
    return Observation(images, state, observation.instruction)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("camera missing", "camera 'image' missing; expected image, wrist_image; found wrist"),
        ("camera unknown", "camera 'side' is not one of the policy's: image, wrist_image"),
        ("float pixels", "camera 'image': pixels are not finite"),
        ("grey", r"camera 'image': expected uint8 \[height, width, 3\] RGB, found uint8 \[\d+"),
        ("state nan", "state: not finite: y"),
        ("state short", r"state: expected 5 values \(x, y, z, gripper.0, gripper.1\)"),
    ],
)
def test_bad_observations_are_refused_by_name(kind, text):
    policy, observation, _ = load_e2e("e2e0")
    with pytest.raises(PolicyError, match=text):
        policy.infer(bad(observation, kind))


def test_an_endless_instruction_is_refused_and_an_empty_one_is_not():
    policy, observation, expected = load_e2e("e2e2")
    endless = dataclasses.replace(observation, instruction="again and " * 2000)
    with pytest.raises(PolicyError, match="instruction: at most 1024 tokens, found"):
        policy.infer(endless)
    empty = policy.infer(dataclasses.replace(observation, instruction=""), expected["noise"])
    usual = dataclasses.replace(observation, instruction="Perform the task.")
    np.testing.assert_array_equal(empty.actions, policy.infer(usual, expected["noise"]).actions)


def test_images_with_any_strides():
    policy, observation, expected = load_e2e("e2e0")
    flipped = {k: v[:, ::-1][:, ::-1] for k, v in observation.images.items()}
    read_only = {k: v.copy() for k, v in observation.images.items()}
    for image in read_only.values():
        image.flags.writeable = False
    plain = policy.infer(observation, expected["noise"]).actions
    for images in (flipped, read_only):
        other = dataclasses.replace(observation, images=images)
        np.testing.assert_array_equal(policy.infer(other, expected["noise"]).actions, plain)


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ("state", "mean_std_embedding_keys"),
        ("action", "mean_std_embedding_keys"),
        ("state", "sin_cos_embedding_keys"),
    ],
)
def test_groups_that_isaac_encodes_otherwise_are_refused_by_name(part, key, tmp_path):
    root = tmp_path / "checkpoint"
    shutil.copytree(GOLDEN / FIXTURE, root)
    content = json.loads((root / "processor_config.json").read_text())
    kwargs = content["processor_kwargs"]
    kwargs["apply_sincos_state_encoding"] = True
    kwargs["modality_configs"]["new_embodiment"][part][key] = ["single_arm"]
    (root / "processor_config.json").write_text(json.dumps(content))
    with pytest.raises(PolicyError, match=rf"new_embodiment.{part}.{key}: single_arm: not support"):
        load_policy(root, embodiment="new_embodiment")
    load_policy(root, embodiment="libero_sim")


@pytest.mark.parametrize(
    ("file", "path", "value", "says"),
    [
        ("architecture.json", ("backbone", "vision_config", "depth"), "many", "depth"),
        ("architecture.json", ("backbone", "text_config", "head_dim"), None, "head_dim"),
        ("architecture.json", ("backbone", "image_token_id"), None, "image_token_id: expected"),
        ("config.json", ("select_layer",), 0, "select_layer: expected a whole number from 1"),
        ("preprocessor_config.json", ("image_mean",), [0.4, 0.5, 0.5], "image_mean"),
        (
            "statistics.json", ("new_embodiment", "state", "gripper", "q01"), [{}],
            "new_embodiment.state.gripper: statistic 'q01': expected numbers, found",
        ),
        (
            "processor_config.json",
            ("processor_kwargs", "modality_configs", "new_embodiment", "video", "modality_keys"),
            [7], r"video.modality_keys: expected names of cameras, found \[7\]",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_that_file(file, path, value, says, tmp_path):
    root = tmp_path / "checkpoint"
    shutil.copytree(GOLDEN / FIXTURE, root)
    content = json.loads((root / file).read_text())
    *parents, last = path
    place = content
    for key in parents:
        place = place[key]
    place[last] = value
    (root / file).write_text(json.dumps(content))
    with pytest.raises(PolicyError, match=rf"{file}.*{says}"):
        load_policy(root, embodiment="new_embodiment")


def edited(tmp_path, file, edit):
    root = shutil.copytree(GOLDEN / FIXTURE, tmp_path / "checkpoint")
    content = json.loads((root / file).read_text())
    edit(content)
    (root / file).write_text(json.dumps(content))
    return root


@pytest.mark.parametrize("rows", [3, 8])
def test_statistics_a_time_step_reach_over_the_chunk_or_are_refused(tmp_path, rows):
    def stretch(content):
        entry = content["new_embodiment"]["relative_action"]["single_arm"]
        for name, value in entry.items():
            line = value[0] if isinstance(value[0], list) else value
            entry[name] = [line] * rows

    root = edited(tmp_path, "statistics.json", stretch)
    if rows < 8:
        says = r"statistics.json: new_embodiment.relative_action.single_arm: .*\[8 or more, 5\]"
        with pytest.raises(PolicyError, match=rf"{says}.*found \[3, 5\]"):
            load_policy(root, embodiment="new_embodiment")
    else:
        _, observation, expected = load_e2e("e2e2")
        load_policy(root, embodiment="new_embodiment").infer(observation, expected["noise"])


def test_a_state_has_no_time_steps(tmp_path):
    def stretch(content):
        entry = content["new_embodiment"]["state"]["gripper"]
        entry.update({name: [value] * 4 for name, value in entry.items()})

    root = edited(tmp_path, "statistics.json", stretch)
    with pytest.raises(PolicyError, match=r"state.gripper: expected 1 numbers, found shape \[4, 1"):
        load_policy(root, embodiment="new_embodiment")


def test_an_instruction_that_stands_for_an_image_is_refused(tmp_path):
    """As words it is harmless: formalising takes its brackets away."""
    policy, observation, expected = load_e2e("e2e2")
    given = dataclasses.replace(observation, instruction="look <|image_pad|> there")
    policy.infer(given, expected["noise"])
    root = edited(
        tmp_path,
        "processor_config.json",
        lambda c: c["processor_kwargs"].update(formalize_language=False),
    )
    raw = load_policy(root, embodiment="new_embodiment")
    raw.infer(observation, expected["noise"])
    with pytest.raises(PolicyError, match=r"instruction: .*stands for an image: 'look <|image_pad"):
        raw.infer(given, expected["noise"])


def test_a_published_tag_has_its_row_whatever_the_checkpoint_lists(tmp_path):
    """Isaac-GR00T adds its own table to a checkpoint's embodiment_id.json."""
    tag = "robocasa_panda_omron"

    def rename(content):
        modalities = content["processor_kwargs"]["modality_configs"]
        modalities[tag] = modalities.pop("new_embodiment")

    root = edited(tmp_path, "processor_config.json", rename)
    statistics = json.loads((root / "statistics.json").read_text())
    statistics[tag] = statistics["new_embodiment"]
    (root / "statistics.json").write_text(json.dumps(statistics))
    with pytest.raises(PolicyError, match=rf"'{tag}' has id 10; the model has 0 to 5"):
        load_policy(root, embodiment=tag)


def test_liberos_gripper_needs_its_group(tmp_path):
    def rename(content):
        keys = content["processor_kwargs"]["modality_configs"]["libero_sim"]["action"]
        keys["modality_keys"].remove("gripper")

    root = edited(tmp_path, "processor_config.json", rename)
    with pytest.raises(
        PolicyError, match=r"LIBERO's gripper needs a group 'gripper' of one column"
    ):
        load_policy(root, embodiment="libero_sim")


def test_a_sliver_of_an_image_is_refused_before_it_is_made_large():
    policy, observation, expected = load_e2e("e2e0")
    sliver = {key: np.zeros((2, 500, 3), np.uint8) for key in observation.images}
    with pytest.raises(PolicyError, match="image 2 x 500: aspect ratio over 200"):
        policy.infer(dataclasses.replace(observation, images=sliver), expected["noise"])


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ((), r"processor_config.json: processor_kwargs.exclude_state: expected false, found True"),
        (
            ("modality_configs", "new_embodiment", "state"),
            r"modality_configs.new_embodiment.state.exclude_state: expected false, found True",
        ),
    ],
)
def test_a_state_that_isaac_keeps_from_the_model_is_refused(tmp_path, place, says):
    def hide(content):
        here = content["processor_kwargs"]
        for key in place:
            here = here[key]
        here["exclude_state"] = True

    with pytest.raises(PolicyError, match=says):
        load_policy(edited(tmp_path, "processor_config.json", hide), embodiment="new_embodiment")


def test_a_statistic_that_is_not_used_may_be_anything(tmp_path):
    """Groups are normalised by their range; warming up takes the mean where there is one."""

    def spoil(content):
        content["new_embodiment"]["state"]["single_arm"]["mean"][0] = float("nan")

    root = edited(tmp_path, "statistics.json", spoil)
    load_policy(root, embodiment="new_embodiment").warm_up()
