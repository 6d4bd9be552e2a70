# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint that lost a file beside its weights never answers otherwise without a word."""

import json
import logging
import shutil

import numpy as np
import other_sizes
import pytest
import torch
from golden import GOLDEN, needs_golden
from gr00t_case import FIXTURE
from test_bad_input import request

from phyai_ros.engine import notices
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.gr00t_n17.images import ImageRules
from phyai_ros.engine.models.gr00t_n17.read import (
    IMAGE_PROCESSOR,
    read_config,
    read_image_processor,
)
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError

WORDS = "put the red block beside the other one and " * 8
"""Longer than all but GR00T's and openpi's pi0.5 take: where it is cut counts."""


@pytest.fixture(autouse=True)
def nothing_said():
    """Warnings are said once a process."""
    notices._said.clear()


def answered(root):
    policy = load_policy(root)
    noise = torch.randn(policy.noise_shape(1), generator=torch.Generator().manual_seed(4))
    return policy.infer(request(policy.spec, WORDS), noise).actions


def put(file, **values):
    file.write_text(json.dumps({**(json.loads(file.read_text())), **values}))


def outcome(root, whole, name, caplog):
    """What a policy without the file ``name`` does, in a word; a longer text where it is wrong."""
    try:
        found = answered(root)
    except PolicyError as error:
        return "refused" if name in str(error) else f"refused without its name: {error}"
    if any(name in record.getMessage() for record in caplog.records):
        return "warned"
    return "same" if np.array_equal(found, whole) else "other answers without a word"


@pytest.mark.parametrize("layout", other_sizes.LAYOUTS)
def test_each_file_counts_or_its_absence_is_told_by_name(layout, tmp_path, caplog):
    root = tmp_path / layout
    root.mkdir()
    other_sizes.LAYOUTS[layout](root)
    if (root / "tokenizer.json").is_file():
        (root / "tokenizer_config.json").write_text('{"truncation_side": "left"}')
    whole = answered(root)
    files = [f for f in root.rglob("*") if f.is_file() and f.name != "model.safetensors"]
    assert len(files) > 2
    told = {}
    for file in files:
        content = file.read_bytes()
        file.unlink()
        notices._said.clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            told[file.name] = outcome(root, whole, file.name, caplog)
        file.write_bytes(content)
    assert set(told.values()) <= {"refused", "warned", "same"}, told
    assert told["config.json"] == "refused"
    if layout == "gr00t_n17":
        assert told[IMAGE_PROCESSOR] == "refused"
    if layout in ("pi0", "pi05", "smolvla"):
        assert told["tokenizer_config.json"] == "warned"


@pytest.mark.parametrize("layout", other_sizes.LAYOUTS)
def test_a_link_to_what_is_not_there_is_no_absent_file(layout, tmp_path):
    """As of a Hugging Face cache that was copied without its blobs: no default takes its place."""
    root = tmp_path / layout
    root.mkdir()
    other_sizes.LAYOUTS[layout](root)
    if (root / "tokenizer.json").is_file():
        (root / "tokenizer_config.json").write_text("{}")
    for file in [f for f in root.rglob("*") if f.is_file()]:
        content = file.read_bytes()
        file.unlink()
        file.symlink_to("../../blobs/0123")
        says = rf"{file.name}: expected a file, found a link to ../../blobs/0123, which is not ther"
        with pytest.raises(PolicyError, match=says):
            load_policy(root)
        file.unlink()
        file.write_bytes(content)
    load_policy(root)


def test_a_folder_in_place_of_a_file_is_said_to_be_one(tmp_path):
    other_sizes.LAYOUTS["act"](tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(PolicyError, match=r"model.safetensors: expected a file, found a directory"):
        load_policy(tmp_path)


@pytest.mark.parametrize("file", ["model.safetensors", "statistics.safetensors"])
def test_a_file_that_was_cut_says_how_much_is_missing(file, tmp_path):
    other_sizes.LAYOUTS["act"](tmp_path)
    whole = (tmp_path / file).read_bytes()
    head = 8 + int.from_bytes(whole[:8], "little")
    for size, says in (
        (len(whole) - 1, f"expected {len(whole)} bytes, found {len(whole) - 1}"),
        (head, f"expected {len(whole)} bytes, found {head}"),
        (head - 1, f"expected {head} bytes of header alone, found {head - 1}"),
        (7, "expected a header and weights, found 7 bytes"),
        (0, "expected a header and weights, found 0 bytes"),
    ):
        (tmp_path / file).write_bytes(whole[:size])
        with pytest.raises(PolicyError, match=rf"{file}: .*: {says}: copy or download it again"):
            load_policy(tmp_path)
    (tmp_path / file).write_bytes(whole + b"more")
    with pytest.raises(PolicyError, match=f"expected {len(whole)} bytes, found {len(whole) + 4}"):
        load_policy(tmp_path)
    (tmp_path / file).write_bytes(b"none of safetensors' own, and longer than eight")
    with pytest.raises(PolicyError, match=rf"{file}: not readable as safetensors: [^:]*: header"):
        load_policy(tmp_path)
    (tmp_path / file).write_bytes(whole)
    load_policy(tmp_path)


@needs_golden
def test_a_published_backbones_image_processor_is_known(tmp_path):
    root = shutil.copytree(GOLDEN / FIXTURE, tmp_path / "checkpoint")
    checkpoint = Checkpoint(root)
    vision = read_config(checkpoint).vision
    (root / IMAGE_PROCESSOR).unlink()
    with pytest.raises(PolicyError, match=r"architecture.json describes, found none.*copy it from"):
        load_policy(root, embodiment="libero_sim")
    (root / IMAGE_PROCESSOR).write_bytes((GOLDEN / FIXTURE / IMAGE_PROCESSOR).read_bytes())
    (root / "architecture.json").unlink()  # as Isaac-GR00T and lerobot save the published one
    with pytest.raises(PolicyError, match=r"expected .*, found .*architecture.json: no such file"):
        load_policy(root, embodiment="libero_sim")
    (root / IMAGE_PROCESSOR).unlink()
    for name in ("nvidia/Cosmos-Reason2-2B", "Qwen/Qwen3-VL-2B-Instruct"):
        assert read_image_processor(checkpoint, name, vision) is None
    with pytest.raises(PolicyError, match=rf"{IMAGE_PROCESSOR}: missing.*'ours/other'"):
        read_image_processor(checkpoint, "ours/other", vision)
    sizes = {"image_target_size": [256, 256], "image_crop_size": [230, 230]}
    assert ImageRules.isaac(sizes, None, "here").pixels == (65536, 16777216)


@needs_golden
@pytest.mark.parametrize(
    ("lost", "given", "says"),
    [
        ("image_mean", None, r"image_mean, image_std: expected 0.5 for each colour, found None"),
        ("size", None, r"size.shortest_edge: expected a whole number from 1 .*found None"),
        (None, {"size": {"shortest_edge": 1024}}, r"size.longest_edge: expected .*found None"),
        (None, {"min_pixels": 3136}, r"min_pixels: expected none beside .*found 3136"),
        (None, {"patch_size": 14}, r"patch_size: expected the backbone's 16, found 14"),
        (None, {"merge_size": 1}, r"merge_size: expected the backbone's 2, found 1"),
    ],
)
def test_what_an_image_processor_leaves_out_is_not_made_up(lost, given, says, tmp_path):
    root = shutil.copytree(GOLDEN / FIXTURE, tmp_path / "checkpoint")
    content = json.loads((root / IMAGE_PROCESSOR).read_text())
    content.pop(lost, None)
    (root / IMAGE_PROCESSOR).write_text(json.dumps({**content, **(given or {})}))
    with pytest.raises(PolicyError, match=rf"{IMAGE_PROCESSOR}.*{says}"):
        load_policy(root, embodiment="libero_sim")


@needs_golden
def test_a_weight_row_that_no_file_gives_is_told(tmp_path, caplog):
    root = shutil.copytree(GOLDEN / FIXTURE, tmp_path / "checkpoint")
    (root / "embodiment_id.json").unlink()
    with caplog.at_level(logging.WARNING):
        load_policy(root, embodiment="libero_sim")
    assert "embodiment_id.json: no such file" in caplog.text
    assert "'libero_sim' is taken to have weight row 2" in caplog.text


@pytest.mark.parametrize("mask", [None, [], [True]])
def test_actions_that_nothing_says_are_absolute_are_told(mask, tmp_path, caplog):
    other_sizes.LAYOUTS["pi05_openpi"](tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("delta_action_mask", None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    if mask is not None:
        put(tmp_path / "config.json", delta_action_mask=mask)
    with caplog.at_level(logging.WARNING):
        load_policy(tmp_path)
    assert ("no delta_action_mask" in caplog.text) == (mask is None)
