# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Images, prompts and vectors of pi0 and pi0.5 against the references."""

import logging

import numpy as np
import pi_cases
import pytest
import sentencepiece
import torch
from golden import GOLDEN, cases, needs_golden, tensors

from phyai_ros.engine import normalize
from phyai_ros.engine.kernels import letterbox
from phyai_ros.engine.models.paligemma import prompt
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation, PolicyError

pytestmark = needs_golden
PICTURES = ("vga", "square", "hd", "odd")
PROMPTS = cases("preprocess/prompts")["cases"] if GOLDEN.is_dir() else []


@pytest.fixture(scope="module")
def pictures():
    raw = np.load(GOLDEN / "preprocess/images/raw.npz")
    made = np.load(GOLDEN / "preprocess/pi0_pi05/cases.npz")
    return raw, made


@pytest.mark.parametrize("name", PICTURES)
def test_lerobot_image(pictures, name):
    raw, made = pictures
    found = letterbox.reference(torch.from_numpy(raw[name])[None], 224, 224)[0].numpy()
    difference = np.abs(found - made[f"lerobot.{name}"])
    assert difference.max() <= 1e-6  # two threads against one already differ by 2e-7


@pytest.mark.parametrize("name", PICTURES)
def test_openpi_image(pictures, name):
    raw, made = pictures
    found = letterbox.reference(torch.from_numpy(raw[name])[None], 224, 224, pillow=True)[0]
    expected = torch.from_numpy(made[f"openpi_pil.{name}"]).permute(2, 0, 1)
    assert torch.equal(found, expected.float() / 255 * 2 - 1)


def test_every_picture_is_read(pictures):
    _, made = pictures
    assert {name.split(".")[1] for name in made} == set(PICTURES)


def pieces(built):
    return [{"text": p.text, "add_bos": p.special} for p in built]


@pytest.mark.parametrize("case", PROMPTS, ids=lambda c: repr(c["instruction"])[:30])
def test_prompts(case):
    state = np.asarray(case["state_normalised"], np.float32)
    task = case["instruction"]
    assert pieces(prompt.lerobot_pi0(task, state)) == [
        {"text": case["pi0_lerobot"], "add_bos": True}
    ]
    assert pieces(prompt.pi05(task, state)) == [{"text": case["pi05_lerobot"], "add_bos": True}]
    assert pieces(prompt.openpi_pi0(task, state)) == case["pi0_openpi"]
    assert pieces(prompt.pi05(task, state.astype(np.float64))) == case["pi05_openpi"]


def test_old_lerobot_pads_the_state_in_the_prompt():
    (built,) = prompt.pi05_padded(5)("do", np.array([-1.0, 1.0]))
    assert built.text == "Task: do, State: 0 255 128 128 128;\nAction: "
    (built,) = prompt.pi05_padded(1)("do", np.array([-1.0, 1.0]))
    assert built.text == "Task: do, State: 0 255;\nAction: "


@pytest.mark.parametrize("fixture", ["pi05", "pi05_openpi"])
def test_prompt_of_a_checkpoint(tmp_path, fixture):
    """A state bin at every value of a range: the tokens are those of the text, exactly."""
    adapter = load_policy(GOLDEN / fixture).adapter
    seen = observation(adapter)
    state = adapter.transforms.state.normalise(seen.state.astype(adapter.transforms.dtype))
    (built,) = prompt.pi05(seen.instruction, state)
    expected = adapter.transforms.tokenizer.encode(built.text)
    batch = adapter.prepare([seen])
    assert batch.tokens[batch.token_mask].tolist() == expected[: adapter.spec.max_prompt_tokens]


def test_max_state_dim_in_the_step_selects_the_old_prompt(tmp_path):
    directory = pi_cases.copy("pi05", tmp_path)
    plain = load_policy(directory).adapter
    step = "pi05_prepare_state_tokenizer_processor_step"
    pi_cases.edit_step(directory / "policy_preprocessor.json", step, max_state_dim=8)
    padded = load_policy(directory).adapter
    seen = observation(plain)
    assert padded.transforms.prompt(seen.instruction, np.zeros(6))[0].text.count("128") == 8
    assert plain.transforms.prompt(seen.instruction, np.zeros(6))[0].text.count("128") == 6
    longer, shorter = padded.prepare([seen]), plain.prepare([seen])
    assert longer.token_mask.sum() > shorter.token_mask.sum()


@pytest.mark.parametrize("fixture", pi_cases.FIXTURES)
def test_sentencepiece_model_instead_of_a_tokenizer_json(tmp_path, fixture):
    directory = pi_cases.copy(fixture, tmp_path)
    (directory / "tokenizer.json").unlink()
    corpus = [f"Task: pick up the red block, State: {n};\nAction: " for n in range(-1, 256)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_prefix=str(directory / "tokenizer"),
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{directory}/tokenizer.model")
    adapter = load_policy(directory).adapter
    seen = observation(adapter)
    state = adapter.transforms.state.normalise(seen.state.astype(adapter.transforms.dtype))
    built = adapter.transforms.prompt(seen.instruction, state)
    expected = [i for p in built for i in processor.encode(p.text, add_bos=p.special)]
    expected = expected[: adapter.spec.max_prompt_tokens]
    batch = adapter.prepare([seen])
    assert batch.tokens[batch.token_mask].tolist() == expected
    assert expected[0] == 2
    assert expected.count(2) == 1


@pytest.mark.parametrize("mode", ["mean_std", "quantile"])
def test_openpi_normalisation_to_the_bit(mode):
    arrays = {k: v.numpy() for k, v in tensors("preprocess/normalisation").items()}

    def normaliser(key):
        stats = {
            k.rpartition(".")[2]: v.astype(np.float64)
            for k, v in arrays.items()
            if k.startswith(f"stats.{key}.")
        }
        return normalize.openpi(stats, key, quantiles=mode == "quantile")

    state = normaliser("observation.state").normalise(arrays["state_raw"])
    np.testing.assert_array_equal(state, arrays[f"openpi.{mode}.state_normalised"])
    action = normaliser("action").unnormalise(arrays["action_normalised_padded"])
    np.testing.assert_array_equal(action, arrays[f"openpi.{mode}.actions_unnormalised_padded"])


def observation(adapter, state=None, instruction="pick up the red block"):
    spec = adapter.spec
    rng = np.random.default_rng(0)
    pixels = {k: rng.integers(0, 256, (48, 64, 3), dtype=np.uint8) for k in spec.cameras}
    values = np.linspace(-0.5, 0.5, spec.state_dim) if state is None else state
    return Observation(pixels, values, instruction)


def test_relative_actions_of_lerobot(tmp_path):
    arrays = {k: v.numpy() for k, v in tensors("preprocess/normalisation").items()}
    extra = cases("preprocess/normalisation")["extra"]
    directory = pi_cases.copy("pi0", tmp_path)
    pi_cases.edit_step(
        directory / "policy_preprocessor.json",
        "relative_actions_processor",
        enabled=True,
        exclude_joints=extra["exclude_joints"],
        action_names=extra["action_names"],
    )
    pi_cases.edit_step(
        directory / "policy_postprocessor.json", "absolute_actions_processor", enabled=True
    )
    adapter = load_policy(directory).adapter
    assert [f.relative for f in adapter.spec.action] == [True] * 6 + [False]
    chunk, state = arrays["action_normalised"][0], arrays["state_raw"][0]
    seen = observation(adapter, state)
    relative = chunk - adapter._offset(seen, chunk.dtype)
    np.testing.assert_array_equal(relative, arrays["lerobot.relative_actions"][0])
    absolute = relative + adapter._offset(seen, chunk.dtype)
    np.testing.assert_array_equal(absolute, arrays["lerobot.absolute_actions"][0])
    # and through the whole decode: the same output, elsewhere, moves with the state
    x = np.zeros((1, *chunk.shape[:-1], adapter.spec.model_action_dim), np.float32)
    here, there = (adapter.decode(x, [observation(adapter, s)])[0] for s in (state, state + 1))
    np.testing.assert_allclose((there - here)[:, :6], 1.0, atol=1e-6)
    np.testing.assert_array_equal((there - here)[:, 6], 0.0)


def test_delta_actions_of_openpi(tmp_path):
    arrays = {k: v.numpy() for k, v in tensors("preprocess/normalisation").items()}
    mask = cases("preprocess/normalisation")["extra"]["openpi_delta_mask"]
    directory = pi_cases.copy("pi0_openpi", tmp_path)
    pi_cases.edit_json(directory / "config.json", delta_action_mask=mask)
    adapter = load_policy(directory).adapter
    seen = observation(adapter, arrays["state_raw"][3])
    chunk = arrays["action_normalised"][1]
    offset = adapter._offset(seen, chunk.dtype)
    delta = chunk - offset
    np.testing.assert_array_equal(delta, arrays["openpi.delta_actions"])
    np.testing.assert_array_equal(delta + offset, arrays["openpi.absolute_actions"])


def test_long_prompt_is_cut_and_warned_of_once(caplog):
    adapter = load_policy(GOLDEN / "pi0").adapter
    limit = adapter.spec.max_prompt_tokens
    long = observation(adapter, instruction="open the drawer and " * 20)
    with caplog.at_level(logging.WARNING):
        batch = adapter.prepare([long])
        adapter.prepare([long])
    assert batch.tokens.shape[1] == limit
    assert batch.token_mask.all()
    whole = adapter.transforms.tokenizer.encode(long.instruction + "\n")
    assert batch.tokens[0].tolist() == whole[:limit]
    warnings = [r for r in caplog.records if "cut to the model's" in r.getMessage()]
    assert len(warnings) == 1
    assert str(limit) in warnings[0].getMessage()


@pytest.mark.parametrize("fixture", pi_cases.FIXTURES)
def test_no_camera_at_all_is_refused(fixture):
    adapter = load_policy(GOLDEN / fixture).adapter
    seen = observation(adapter)
    with pytest.raises(PolicyError, match=f"none of the cameras .*{adapter.spec.cameras[0]}"):
        adapter.prepare([Observation({}, seen.state, "go")])


def test_bad_state_is_refused():
    policy = load_policy(GOLDEN / "pi0")
    seen = observation(policy.adapter)
    for state, text in ((np.zeros(3), "expected 7 values"), (np.full(7, np.nan), "not finite")):
        with pytest.raises(PolicyError, match=text):
            policy.infer(Observation(seen.images, state, "go"))
