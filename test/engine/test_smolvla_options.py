# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA checkpoints with options that the golden fixture does not have."""

import json
import shutil

import numpy as np
import pytest
import torch
from golden import GOLDEN, needs_golden
from safetensors.torch import load_file, save_file
from test_smolvla import CAMERAS, observation, policy

from phyai_ros.engine.models.smolvla.backbone import position_line
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation

pytestmark = needs_golden
WEIGHTS = "model.safetensors"


def rewritten(tmp_path, tensors=None, **changes):
    """The checkpoint with other weights or config.json entries, loaded."""
    checkpoint = shutil.copytree(GOLDEN / "smolvla", tmp_path / "smolvla")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, **changes}))
    if tensors is not None:
        save_file(tensors(load_file(checkpoint / WEIGHTS)), checkpoint / WEIGHTS)
    return load_policy(checkpoint)


def test_a_head_that_is_the_embedding_may_be_all_there_is(tmp_path):
    """safetensors keeps one name of tied weights, and lm_head comes first."""
    embedding, noise = "model.text_model.embed_tokens", torch.zeros(policy().adapter.noise_shape(1))
    vlm = "model.vlm_with_expert.vlm."

    def tie(weights):
        weights[f"{vlm}lm_head.weight"] = weights.pop(f"{vlm}{embedding}.weight")
        return weights

    found = rewritten(tmp_path, tie).infer(observation(), noise).actions
    np.testing.assert_array_equal(found, policy().infer(observation(), noise).actions)


@pytest.mark.parametrize("layers", [-1, 0, 99])
def test_no_number_of_layers_or_too_many_means_all(layers):
    config = SmolVlaConfig.parse({"num_vlm_layers": layers}, None, "nowhere")
    assert config.num_vlm_layers == 32


@pytest.mark.parametrize(
    ("side", "trained", "expected"),
    [
        (4, 4, [0, 1, 2, 3]),
        (14, 32, [0, 2, 4, 6, 9, 11, 13, 16, 18, 20, 22, 25, 27, 29]),
        (5, 3, [0, 0, 1, 1, 2]),
        # float32 rounds these starts to the wrong side of their share; so does transformers 5.5.4
        (
            25,
            25,
            [
                0,
                1,
                2,
                3,
                4,
                4,
                6,
                7,
                8,
                8,
                9,
                10,
                11,
                12,
                14,
                14,
                16,
                17,
                17,
                19,
                19,
                21,
                22,
                22,
                24,
            ],
        ),
        (19, 19, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 13, 14, 15, 16, 17, 18]),
    ],
)
def test_positions_of_another_number_of_patches(side, trained, expected):
    assert position_line(side, trained) == expected


def test_marks_stand_unscaled_around_every_image_and_around_empty_ones(tmp_path):
    """LeRobot's embed_prefix: two tokens before and one after, real even where the image is not;
    absent cameras beyond ``empty_cameras`` have none."""
    marked = rewritten(tmp_path, add_image_special_tokens=True, empty_cameras=1).adapter
    given = observation()
    one = Observation({CAMERAS[1]: given.images[CAMERAS[1]]}, given.state, "go")
    inputs = marked.prepare([given, one])
    model = marked.model
    embedded = model.embed(inputs, model.vision(inputs))
    table, tokens = model.text_model.embed_tokens.weight, model.config.image_tokens
    fake, whole = (marked.tokenizer.id(t) for t in ("<fake_token_around_image>", "<global-img>"))
    block = tokens + 3
    for row, (images, slots) in enumerate(((2, 3), (1, 2))):
        for slot in range(3):
            real = embedded.pad_mask[row, slot * block : (slot + 1) * block]
            expected = [slot < slots] * 2 + [slot < images] * tokens + [slot < slots]
            assert real.tolist() == expected, (row, slot)
            x = embedded.x[row, slot * block : (slot + 1) * block]
            for place, token in ((0, fake), (1, whole), (-1, fake)):
                torch.testing.assert_close(x[place], table[token], rtol=0, atol=0)
    noise = torch.randn(marked.noise_shape(2), generator=torch.Generator().manual_seed(0))
    engine = load_policy(tmp_path / "smolvla")
    together = engine.infer_batch([given, one], noise)
    for i, request in enumerate((given, one)):
        alone = engine.infer(request, noise[i]).actions
        assert np.abs(alone - together[i].actions).max() < 1e-5 * np.abs(alone).max()
    bare = policy().infer(given, noise[0]).actions
    assert np.abs(together[0].actions - bare).max() > 1e-4


@pytest.mark.parametrize("side", [32, 96])
def test_images_of_another_size_than_the_towers(tmp_path, side):
    other = rewritten(tmp_path, resize_imgs_with_padding=[side, side]).adapter
    inputs = other.prepare([observation()])
    assert inputs.images[0].shape[-2:] == (side, side)
    weight = policy().adapter.model.vision_model.embeddings.position_embedding.weight
    n = policy().adapter.model.config.vlm.vision.side
    line = torch.tensor(position_line(side // 16, n))
    laid = other.model.vision_model.embeddings.position_embedding.weight
    torch.testing.assert_close(laid, weight[(line[:, None] * n + line).flatten()])
