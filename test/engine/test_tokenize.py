# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Tokenizers of both kinds, where they are looked for, and padding."""

import json

import numpy as np
import pytest
import sentencepiece
import torch
from golden import GOLDEN, needs_golden
from safetensors.torch import save_file

from phyai_ros.engine import tokenize
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.types import PolicyError


@pytest.fixture
def checkpoint(tmp_path):
    root = tmp_path / "checkpoint"
    root.mkdir()
    (root / "config.json").write_text("{}")
    save_file({"w": torch.zeros(1)}, root / "model.safetensors")
    return Checkpoint(root)


def train(path):
    text = path.parent / "corpus.txt"
    text.write_text("pick up the red block\nput the bowl on the stove\nopen the drawer\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(path.with_suffix("")), vocab_size=25, minloglevel=2
    )


@pytest.mark.parametrize("name", ["tokenizer.model", "paligemma_tokenizer.model"])
def test_sentencepiece(checkpoint, name):
    train(checkpoint.root / name)
    tokenizer = tokenize.load(checkpoint)
    with_bos = tokenizer.encode("pick up")
    assert with_bos[0] == tokenizer.id("<s>")
    assert with_bos[1:] == tokenizer.encode("pick up", special=False)
    assert tokenizer.id("not a piece") is None


@needs_golden
def test_tokenizer_json_wins_and_falls_back(checkpoint, tmp_path):
    source = GOLDEN / "groot_n17" / "tokenizer.json"
    elsewhere = tmp_path / "backbone"
    elsewhere.mkdir()
    (elsewhere / "tokenizer.json").write_bytes(source.read_bytes())
    tokenizer = tokenize.load(checkpoint, str(elsewhere))
    assert tokenizer.id("<|image_pad|>") == 433
    assert tokenizer.id("<|nothing|>") is None
    assert tokenizer.encode("<|im_end|>") == [430]


def with_word(word):
    """A tokenizer.json that knows one word."""
    model = {"type": "WordLevel", "vocab": {word: 7, "?": 0}, "unk_token": "?"}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model})


def test_the_tokenizer_that_the_checkpoint_keeps_in_a_directory_of_its_own(
    checkpoint, tmp_path, monkeypatch
):
    """LeRobot saves it under the name that the step gives; what the current directory has of that
    name, and what lies beside the weights, is another one."""
    for place, word in (
        (checkpoint.root / "tokenizer", "own"), (checkpoint.root, "beside"),
        (tmp_path / "tokenizer", "elsewhere"),
    ):  # fmt: skip
        place.mkdir(exist_ok=True)
        (place / "tokenizer.json").write_text(with_word(word))
    monkeypatch.chdir(tmp_path)
    assert tokenize.load(checkpoint, "tokenizer").encode("own") == [7]
    assert tokenize.load(checkpoint, "lab/backbone").encode("beside") == [7]
    assert tokenize.load(checkpoint).encode("beside") == [7]
    (checkpoint.root / "tokenizer" / "tokenizer.json").unlink()
    assert tokenize.load(checkpoint, "tokenizer").encode("beside") == [7]


@pytest.mark.parametrize("way", ["link", "dots"])
def test_no_tokenizer_comes_from_outside_by_way_of_the_checkpoint(checkpoint, tmp_path, way):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tokenizer.json").write_text(with_word("stolen"))
    if way == "link":
        (checkpoint.root / "tokenizer").symlink_to(outside)
        with pytest.raises(PolicyError, match=r"tokenizer.json: expected a file of this directory"):
            tokenize.load(checkpoint, "tokenizer")
    else:
        with pytest.raises(PolicyError, match="is neither a directory nor a hub id"):
            tokenize.load(checkpoint, "../outside")


@needs_golden
@pytest.mark.parametrize(("fixture", "added"), [("pi0", 1), ("smolvla", 0)])
@pytest.mark.parametrize("side", ["left", "right", None])
def test_a_prompt_is_cut_where_the_tokenizer_says(checkpoint, fixture, added, side):
    """As transformers does it: the BOS stays, of the words the last ones or the first."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (checkpoint.root / name).write_bytes((GOLDEN / fixture / name).read_bytes())
    config = json.loads((checkpoint.root / "tokenizer_config.json").read_text())
    if side is not None:
        config["truncation_side"] = side
    (checkpoint.root / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = tokenize.load(checkpoint)
    text = "pick up the red block and put it down\n"
    whole = tokenizer.encode(text)
    words = tokenizer.encode(text, special=False)
    assert whole == whole[:added] + words
    kept = words[-(8 - added) :] if side == "left" else words[: 8 - added]
    limit = tokenize.Limit(8, 512, "checkpoint")
    assert limit.encode(tokenizer, ((text, True),)) == whole[:added] + kept
    assert tokenizer.encode(text) == whole  # nothing of the cut stays
    roomy = tokenize.Limit(len(whole), 512, "checkpoint")
    assert roomy.encode(tokenizer, ((text, True),)) == whole
    # openpi's, in two pieces, is cut at its end, whatever a file of transformers says
    pieces = ((text, True), ("\n", False))
    assert limit.encode(tokenizer, pieces) == whole[:8]


def test_no_other_side_is_cut(checkpoint):
    (checkpoint.root / "tokenizer.json").write_text(with_word("own"))
    (checkpoint.root / "tokenizer_config.json").write_text('{"truncation_side": "top"}')
    with pytest.raises(PolicyError, match=r"tokenizer_config.json: truncation_side: .* 'top'"):
        tokenize.load(checkpoint)


def test_none(checkpoint, tmp_path):
    with pytest.raises(PolicyError, match=r"no tokenizer.json or tokenizer.model"):
        tokenize.load(checkpoint)
    (tmp_path / "empty").mkdir()
    with pytest.raises(PolicyError, match="empty"):
        tokenize.load(checkpoint, str(tmp_path / "empty"))
    (checkpoint.root / "tokenizer.json").write_text("{}")
    with pytest.raises(PolicyError, match=r"tokenizer.json: not a tokenizer"):
        tokenize.load(checkpoint)
    (checkpoint.root / "tokenizer.json").unlink()
    (checkpoint.root / "tokenizer.model").write_bytes(b"no")
    with pytest.raises(PolicyError, match=r"tokenizer.model: not a sentencepiece model"):
        tokenize.load(checkpoint)


def test_a_backbone_that_is_nowhere(checkpoint, tmp_path, monkeypatch):
    """File, place and remedy are said; what lies in the current directory is not."""
    (tmp_path / "unrelated").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError) as refusal:
        tokenize.load(checkpoint, "my-backbone")
    text = str(refusal.value)
    assert text.startswith(f"{checkpoint.root}: no tokenizer.json or tokenizer.model")
    assert "its backbone 'my-backbone' is neither a directory nor a hub id (owner/name)" in text
    assert "copy the tokenizer.json" in text
    assert "unrelated" not in text


def test_a_backbone_that_is_not_cached(checkpoint, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PolicyError, match=r"no tokenizer.json.*'lab/backbone'.*; copy the token"):
        tokenize.load(checkpoint, "lab/backbone")


@pytest.mark.parametrize("left", [True, False])
def test_pad(left):
    ids, mask = tokenize.pad([[5, 6, 7], [8]], value=0, left=left, length=4)
    expected = [[0, 5, 6, 7], [0, 0, 0, 8]] if left else [[5, 6, 7, 0], [8, 0, 0, 0]]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(mask, np.array(expected) != 0)
    assert tokenize.pad([[5, 6, 7], [8]], value=0, left=left)[0].shape == (2, 3)
