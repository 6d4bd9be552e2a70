# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every refusal, in every layout: it says what, where, what was expected and what there is.

What one family or layout alone refuses is tested beside it: shards, shapes and JSON in
test_checkpoint.py; GR00T's statistics, embodiments and position table there too; LeRobot's
statistics in test_lerobot_layout.py; openpi's in test_pi_layouts.py; hub ids in test_hub.py; sizes
that cannot be in test_act.py, test_diffusion.py, test_smolvla.py and test_pi_layouts.py.
"""

import json
import logging
import shutil
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import other_sizes
import pytest
import torch
from safetensors.torch import load_file, save_file

from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Guidance, Observation, PolicyError

CUT = {"pi0": 37, "pi05": 37, "pi0_openpi": 48, "pi05_openpi": 200, "smolvla": 19}
"""The layouts that cut a long prompt, and to how many tokens."""
TAGGED = {
    "gr00t_n17": r"processor_config.json.*unknown embodiment 'mars'; there are: our_arm",
    "pi0_openpi": r"assets.*'mars' asked for; there are someone/arm",
    "pi05_openpi": r"assets.*'mars' asked for; there are someone/arm",
}
STATISTICS = {
    # file, the statistics of the first state columns there, how to name them in a refusal
    "gr00t_n17": ("statistics.json", ("our_arm", "state", "hand"), "our_arm.state.*'?hand"),
    "pi0_openpi": ("assets/someone/arm/norm_stats.json", ("norm_stats", "state"), "state"),
    "pi05_openpi": ("assets/someone/arm/norm_stats.json", ("norm_stats", "state"), "state"),
}


@pytest.fixture(scope="module", params=other_sizes.LAYOUTS)
def made(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    other_sizes.LAYOUTS[request.param](root)
    return request.param, root, load_policy(root)


@pytest.fixture
def damaged(made, tmp_path):
    """The layout's name and a copy of the checkpoint to break."""
    layout, root, _ = made
    return layout, shutil.copytree(root, tmp_path / layout)


def refused(root, match, **options):
    with pytest.raises(PolicyError, match=match):
        load_policy(root, **options)


# -- at loading ------------------------------------------------------------------------------------


def test_a_directory_that_is_none(damaged):
    _, root = damaged
    refused(root / "typo", "no such directory")


def test_a_pickle_instead_of_safetensors(damaged):
    _, root = damaged
    (root / "model.safetensors").unlink()
    (root / "pytorch_model.bin").write_bytes(b"\x80\x04")
    refused(root, r"only pickle files \(pytorch_model.bin\).*never loaded")


@pytest.mark.parametrize(
    ("shard", "says"),
    [
        ("model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors: shard missing"),
        ("../model.safetensors", "shard '../model.safetensors' is not the plain name of a file"),
    ],
)
def test_a_shard_that_is_missing_or_elsewhere(damaged, shard, says):
    _, root = damaged
    weights = load_file(root / "model.safetensors")
    (root / "model.safetensors").rename(root.parent / "model.safetensors")
    index = {"weight_map": dict.fromkeys(weights, shard)}
    (root / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(root, says)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int32])
def test_a_dtype_that_is_not_supported(damaged, dtype):
    _, root = damaged
    weights = load_file(root / "model.safetensors")
    key = next(k for k, v in weights.items() if v.is_floating_point() and v.ndim > 1)
    weights[key] = weights[key].to(dtype)
    save_file(weights, root / "model.safetensors")
    refused(root, rf"model.safetensors: key '{key}': dtype {dtype} is not supported.*bfloat16")


def test_another_family(damaged):
    layout, root = damaged
    other = "act" if layout != "act" else "pi0"
    refused(root, f"config.json: family '{other}' asked for, but this is", family=other)


def test_an_unknown_embodiment(damaged):
    layout, root = damaged
    says = TAGGED.get(layout, r"embodiment 'mars' asked for.*has no embodiment tags")
    refused(root, says, embodiment="mars")


@pytest.mark.parametrize("way", ["absent", "renamed", "short"])
def test_statistics(damaged, way):
    layout, root = damaged
    if layout in STATISTICS:
        file, path, names = STATISTICS[layout]
        content = json.loads((root / file).read_text())
        *parents, last = path
        place = content
        for key in parents:
            place = place[key]
        if way == "short":
            place[last]["q99"] = place[last]["q99"][:1]
            place[last]["std"] = place[last]["std"][:1]
        else:
            entry = place.pop(last)
            if way == "renamed":
                place["other_name"] = entry
        (root / file).write_text(json.dumps(content))
        refused(root, f"{file}.*{names}")
        return
    file = root / "statistics.safetensors"
    arrays = load_file(file)
    for key in [k for k in arrays if k.startswith("observation.state.")]:
        value = arrays.pop(key)
        if way == "renamed":
            arrays[key.replace("observation.", "obs.")] = value
        elif way == "short":
            arrays[key] = value[:-1].clone()
    save_file(arrays, file)
    says = "has . values, the feature has" if way == "short" else "is absent, which .* needs"
    refused(root, rf"statistics.safetensors: observation.state.\w+ {says}")


# -- at a request ----------------------------------------------------------------------------------


def request(spec, words="go"):
    rng = np.random.default_rng(3)
    images = {
        key: rng.integers(0, 256, (*spec.camera_sizes.get(key, (40, 50)), 3), dtype=np.uint8)
        for key in spec.cameras
    }
    state = rng.normal(size=spec.state_dim)
    now = Observation(images, state, words)
    return replace(now, history=(now,) * spec.history)


def test_too_many_cameras(made):
    policy = made[2]
    given = request(policy.spec)
    more = {**given.images, "selfie": next(iter(given.images.values()))}
    with pytest.raises(PolicyError, match=f"camera 'selfie' is not.*{policy.spec.cameras[0]}"):
        policy.infer(replace(given, images=more))


def test_too_few_cameras(made):
    policy = made[2]
    with pytest.raises(PolicyError, match=f"camera.*{policy.spec.cameras[0]}"):
        policy.infer(replace(request(policy.spec), images={}))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_state_that_is_not_finite_or_too_short(made, value):
    policy = made[2]
    given = request(policy.spec)
    state = given.state.copy()
    state[-1] = value
    name = policy.spec.state_names[-1]
    with pytest.raises(PolicyError, match=f"state: not finite: {name}"):
        policy.infer(replace(given, state=state))
    with pytest.raises(PolicyError, match=f"state: expected {policy.spec.state_dim} values"):
        policy.infer(replace(given, state=state[:-1]))


def test_pixels_that_are_not_bytes(made):
    policy = made[2]
    given = request(policy.spec)
    key = policy.spec.cameras[0]
    for image, says in (
        (np.full(given.images[key].shape, np.nan), "pixels are not finite"),
        (given.images[key].astype(np.float32), "expected uint8"),
    ):
        with pytest.raises(PolicyError, match=f"camera '{key}': {says}"):
            policy.infer(replace(given, images={**given.images, key: image}))


@pytest.mark.parametrize("size", [(1, 900), (900, 1), (1, 1), (3, 5)])
def test_an_image_of_few_pixels_is_answered_or_refused_by_its_camera(made, size):
    """The references cut a side to no pixel at all, and fail somewhere below."""
    layout, _, policy = made
    given = request(policy.spec)
    key = policy.spec.cameras[0]
    image = np.full((*size, 3), 90, np.uint8)
    fitted = layout not in ("act", "diffusion", "gr00t_n17")  # the last makes it a square first
    refusing = layout in ("act", "diffusion") or (fitted and max(size) > 30)
    with pytest.raises(PolicyError, match=f"camera '{key}'") if refusing else nullcontext():
        policy.infer(replace(given, images={**given.images, key: image}))


def test_a_state_that_is_no_numbers(made):
    policy = made[2]
    given = request(policy.spec)
    words = np.array(["0.1"] * policy.spec.state_dim)
    with pytest.raises(PolicyError, match=r"state: expected numbers, found <U3"):
        policy.infer(replace(given, state=words))


def test_an_instruction_that_is_no_text(made):
    policy = made[2]
    for words, says in ((b"go", "expected text"), ("go \ud800", "not text that UTF-8 can hold")):
        with pytest.raises(PolicyError, match=f"instruction: {says}"):
            policy.infer(request(policy.spec, words))


def test_an_instruction_with_a_token_that_the_model_does_not_have(damaged):
    """PaliGemma's tokenizer has an ``<image>`` behind the model's last word; on a GPU an index out
    of range would end the process's use of it."""
    _, root = damaged
    if not (root / "tokenizer.json").is_file():
        return  # it takes no instruction
    content = json.loads((root / "tokenizer.json").read_text())
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    last = max(token["id"] for token in content["added_tokens"])
    for i in range(1, 900):  # more than any of these models knows
        token = {"id": last + i, "content": f"xyz{i}image", "special": True}
        content["added_tokens"].append(token | dict.fromkeys(flags, False))
    (root / "tokenizer.json").write_text(json.dumps(content))
    policy = load_policy(root)
    policy.infer(request(policy.spec))
    with pytest.raises(PolicyError, match=r"instruction: expected tokens below the model's \d+"):
        policy.infer(request(policy.spec, "look at xyz899image there"))


def test_an_instruction_in_any_script_is_answered(made):
    policy = made[2]
    for words in ("", " ", "\n", "把红色方块放进碗里", "vär så god, ta röda klossen", "🤖🟥"):
        chunk = policy.infer(request(policy.spec, words))
        assert np.isfinite(chunk.actions).all()


def test_noise_and_a_left_over_that_are_not_finite(made):
    policy = made[2]
    given = request(policy.spec)
    noise = torch.full(policy.noise_shape(1), torch.nan)
    with pytest.raises(PolicyError, match="noise: not finite"):
        policy.infer(given, noise)
    for method in policy.spec.guidance_methods[:1]:
        rows = np.full((2, policy.spec.action_dim), np.inf)
        with pytest.raises(PolicyError, match=r"guidance\.leftover: not finite"):
            policy.infer(given, None, Guidance(rows, 1, method=method, execution_horizon=1))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"committed": 1.5}, r"guidance\.committed: expected a whole number, found 1\.5"),
        ({"committed": True}, r"guidance\.committed: expected a whole number, found True"),
        ({"committed": 3}, "expected 0 <= committed <= left-over rows.*found committed 3, rows 2"),
        ({"committed": -1}, "expected 0 <= committed .*found committed -1"),
        ({"execution_horizon": 2.5}, r"guidance\.execution_horizon: expected a whole number"),
        ({"execution_horizon": np.True_}, r"guidance\.execution_horizon: expected a whole number"),
        ({"execution_horizon": None}, r"guidance\.execution_horizon: .*found None"),
        ({"execution_horizon": 0}, r"guidance\.execution_horizon: expected 1 to \d+, found 0"),
        ({"leftover": "words"}, r"guidance\.leftover: expected numbers, found <U1"),
        ({"columns": "numbers"}, r"guidance\.columns: expected True or False, found float64"),
        ({"columns": [True]}, r"guidance\.columns: expected \d+ values"),
    ],
    ids=str,
)
def test_a_wish_that_does_not_fit(made, wrong, says):
    policy = made[2]
    given, width = request(policy.spec), policy.spec.action_dim
    named = {"words": np.full((2, width), "1"), "numbers": np.ones(width)}
    wrong = {k: named[v] if isinstance(v, str) else v for k, v in wrong.items()}
    if width == 1 and "columns" in wrong:
        wrong["columns"] = [True, True]
    for method in policy.spec.guidance_methods[:1]:
        wish = Guidance(np.zeros((2, width)), np.int64(1), method, np.int32(1))
        assert np.isfinite(policy.infer(given, None, wish).actions).all()
        with pytest.raises(PolicyError, match=says):
            policy.infer(given, None, replace(wish, **wrong))


def test_wishes_that_are_not_one_a_request(made):
    policy = made[2]
    given = request(policy.spec)
    for wishes in ([None], [], [None] * 3):
        with pytest.raises(PolicyError, match=f"expected 2 entries, found {len(wishes)}"):
            policy.infer_batch([given, given], guidance=wishes)
    assert len(policy.infer_batch([given, given], guidance=[None, None])) == 2


def test_weights_that_make_actions_that_are_not_finite(damaged):
    """Refused at loading, or at the first request: never passed on."""
    _, root = damaged
    weights = load_file(root / "model.safetensors")
    for value in weights.values():
        if value.is_floating_point() and value.ndim > 1:
            value.fill_(torch.nan)
    save_file(weights, root / "model.safetensors")

    def load_and_infer():
        policy = load_policy(root)
        return policy.infer(request(policy.spec))

    with pytest.raises(PolicyError, match=r"not finite|non-finite"):
        load_and_infer()


def test_a_prompt_longer_than_the_limit(made, caplog):
    """Cut as the reference does, with one warning; GR00T's reference has no limit, and here a
    request far beyond any instruction is refused."""
    layout, root, _ = made
    policy = load_policy(root)
    given = request(policy.spec, "put the red block beside the other one and " * 200)
    with caplog.at_level(logging.WARNING):
        if layout == "gr00t_n17":
            with pytest.raises(PolicyError, match="at most 1024 tokens"):
                policy.infer(given)
            return
        first = policy.infer(given, torch.zeros(policy.noise_shape(1)))
        other = replace(given, instruction=given.instruction + "never read")
        second = policy.infer(other, torch.zeros(policy.noise_shape(1)))
    warnings = [r.getMessage() for r in caplog.records if "is cut to the model's" in r.getMessage()]
    assert len(warnings) == (1 if layout in CUT else 0)
    if layout in CUT:
        assert f"is cut to the model's {CUT[layout]}" in warnings[0]
        assert len(warnings[0]) < 600  # not the whole of what somebody sent
    np.testing.assert_array_equal(first.actions, second.actions)
