# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint is read strictly, lazily and never unpickled; every refusal says what and where."""

import io
import json
import os
import shutil

import pytest
import torch
from golden import GOLDEN, needs_golden
from safetensors.torch import load_file, save_file
from torch import nn

from phyai_ros.engine import registry
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError

CPU = torch.device("cpu")


@pytest.fixture
def root(tmp_path):
    """A copy of the GR00T fixture to break."""
    if not GOLDEN.is_dir():
        pytest.skip("no golden fixtures")
    shutil.copytree(GOLDEN / "groot_n17", tmp_path / "groot")
    return tmp_path / "groot"


def refuse(root, match, **arguments):
    arguments.setdefault("embodiment", "libero_sim")
    with pytest.raises(PolicyError, match=match):
        load_policy(root, **arguments)


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_shard(root, change):
    path = root / "model-00002-of-00002.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path)


def test_not_a_directory(tmp_path):
    refuse(tmp_path / "nothing", "no such directory")


def test_no_config(root):
    (root / "config.json").unlink()
    refuse(root, r"config.json: missing: no such file; .* holds .*statistics.json")


def test_a_training_runs_folder_is_answered_with_the_checkpoints_below(root, tmp_path):
    """LeRobot writes checkpoints/<step>/pretrained_model and a link to the last."""
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "002000" / "training_state").mkdir(parents=True)
    shutil.move(root, run / "checkpoints" / "002000" / "pretrained_model")
    (run / "checkpoints" / "last").symlink_to("002000")
    one, last = (run / "checkpoints" / name / "pretrained_model" for name in ("002000", "last"))
    with pytest.raises(PolicyError) as caught:
        Checkpoint(run)
    assert f"{run}: expected a checkpoint's own directory" in str(caught.value)
    assert str(caught.value).endswith(f"below it there are {one}, {last}")
    with pytest.raises(PolicyError, match=rf"there is {last}$"):
        Checkpoint(run / "checkpoints" / "last")


def test_a_folder_that_may_not_be_entered_holds_no_checkpoint(root, monkeypatch):
    """A disk's lost+found, to all but root."""
    closed = root / "lost+found"
    closed.mkdir()
    (root / "config.json").unlink()
    stat = os.stat

    def refused(path, **options):
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refused)
    refuse(root, r"config.json: missing")


def test_a_file_that_was_cloned_without_its_content_says_how_to_get_it(root):
    file = root / "model-00001-of-00002.safetensors"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n")
    refuse(root, r"00001-of-00002.safetensors: a Git LFS pointer.*git lfs pull")


def test_an_adapter_alone_is_said_to_be_one(root):
    for path in root.glob("*.safetensors*"):
        path.unlink()
    (root / "adapter_config.json").write_text("{}")
    refuse(root, r"an adapter \(LoRA\) without its base model: merge the two")


def test_config_not_json(root):
    (root / "config.json").write_text("{")
    refuse(root, r"config.json: not valid JSON")


def test_no_weights(root):
    for path in root.glob("*.safetensors*"):
        path.unlink()
    refuse(root, r"neither model.safetensors nor .* files here: .*config.json")


def test_pickle_is_refused_by_name(root):
    for path in root.glob("*.safetensors*"):
        path.unlink()
    (root / "pytorch_model.bin").write_bytes(b"\x80\x04")
    refuse(root, r"only pickle files \(pytorch_model.bin\).*never loaded")


def test_a_single_file_goes_before_an_index_as_with_the_references(tmp_path):
    """Who saves anew into a directory that had shards leaves their index behind."""
    (tmp_path / "config.json").write_text("{}")
    save_file({"w": torch.zeros(1)}, tmp_path / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"w": "model-00001-of-00001.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert Checkpoint(tmp_path).tensor("w") == 0
    save_file({"w": torch.ones(1)}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.tensor("w") == 1
    assert checkpoint.nbytes == (tmp_path / "model.safetensors").stat().st_size


def test_shard_missing(root):
    (root / "model-00002-of-00002.safetensors").unlink()
    refuse(root, r"model-00002-of-00002.safetensors: shard missing, named by model")


@pytest.mark.parametrize("way", ["../stolen.safetensors", "absolute", "sub/../../x", ".."])
def test_a_shard_outside_the_directory_is_refused(root, way):
    """Also where the file is there and would fit."""
    shard = "model-00002-of-00002.safetensors"
    outside = root.parent / "stolen.safetensors"
    (root / shard).rename(outside)
    named = str(outside) if way == "absolute" else way

    def change(content):
        paths = content["weight_map"]
        paths.update({key: named for key, name in paths.items() if name == shard})

    edit(root / "model.safetensors.index.json", change)
    refuse(root, r"index.json: shard '.*' is not the plain name of a file beside it")


def test_truncated_shard(root):
    path = root / "model-00001-of-00002.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refuse(root, r"model-00001-of-00002.safetensors: not readable as safetensors")


def test_missing_and_unexpected_keys(root):
    index = root / "model.safetensors.index.json"
    name = "action_head.proj_out_3.bias"

    def change(content):
        content["weight_map"][name] = content["weight_map"].pop("action_head.model.proj_out_2.bias")

    edit(index, change)
    edit_shard(root, lambda w: w.update({name: w.pop("action_head.model.proj_out_2.bias")}))
    refuse(root, rf"missing: 'action_head.model.proj_out_2.bias'.*\n.*unexpected: '{name}'")


def test_index_names_a_key_that_the_shard_lacks(root):
    edit_shard(root, lambda w: w.pop("action_head.vlln.bias"))
    refuse(root, r"model-00002-of-00002.safetensors: key 'action_head.vlln.bias' missing, named by")


def test_wrong_shape(root):
    edit_shard(root, lambda w: w.update({"action_head.vlln.bias": torch.zeros(63)}))
    refuse(root, r"key 'action_head.vlln.bias': expected shape \(64,\), found \(63,\)")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int64])
def test_unsupported_dtype(root, dtype):
    edit_shard(root, lambda w: w.update({"action_head.vlln.bias": torch.zeros(64).to(dtype)}))
    refuse(root, r"key 'action_head.vlln.bias': dtype torch.* is not supported")


def test_embodiment(root):
    refuse(root, r"several embodiments, name one.*libero_sim, oxe_droid", embodiment=None)
    refuse(root, r"unknown embodiment 'gr1'; there are: libero_sim", embodiment="gr1")
    edit(root / "embodiment_id.json", lambda c: c.pop("libero_sim"))
    policy = load_policy(root, embodiment="libero_sim")  # as Isaac-GR00T has it: the published row
    assert policy.adapter.sidecars.embodiment_id == 2
    edit(root / "statistics.json", lambda c: c.update(our_arm=c.pop("libero_sim")))
    tags = ("processor_kwargs", "modality_configs")
    edit(
        root / "processor_config.json",
        lambda c: c[tags[0]][tags[1]].update(our_arm=c[tags[0]][tags[1]].pop("libero_sim")),
    )
    says = r"embodiment_id.json: no id for embodiment 'our_arm'; there are: .*oxe_droid"
    refuse(root, says, embodiment="our_arm")


def test_embodiment_without_weights(root):
    edit(root / "embodiment_id.json", lambda c: c.update(libero_sim=6))
    refuse(root, r"embodiment 'libero_sim' has id 6; the model has 0 to 5")


def test_statistics(root):
    path = root / "statistics.json"
    edit(path, lambda c: c["libero_sim"]["action"].pop("roll"))
    refuse(root, r"statistics.json: libero_sim.action: no statistics for 'roll'; there are: x, y")
    edit(path, lambda c: c["libero_sim"]["action"].update(roll={"mean": [0.0]}))
    refuse(root, r"libero_sim.action.roll: statistic 'q01' missing.*there are: mean")
    edit(path, lambda c: c["libero_sim"]["action"].update(roll={"q01": [0.0], "q99": [0.0, 1.0]}))
    refuse(root, r"libero_sim.action.roll: statistic 'q99': expected 1 values, found 2")
    edit(path, lambda c: c.pop("libero_sim"))
    refuse(root, r"no statistics for embodiment 'libero_sim'; there are: oxe_droid")


def test_horizon_longer_than_the_position_table(root):
    edit(root / "config.json", lambda c: c.update(action_horizon=33))
    refuse(root, r"config.json: action_horizon 33 is longer than the position table \(.* 32\)")


def test_unknown_backbone(root):
    (root / "architecture.json").unlink()
    edit(root / "config.json", lambda c: c.update(model_name="some/other"))
    refuse(root, r"key 'model_name': backbone 'some/other' has no known dimensions; known: nvidia/")


@pytest.mark.parametrize("key", ["use_mean_std", "apply_sincos_state_encoding", "exclude_state"])
def test_a_setting_that_is_not_built(root, key):
    edit(root / "config.json", lambda c: c.update({key: True}))
    refuse(root, rf"{key} = True is not supported")


def test_families(root):
    refuse(root, r"unknown model family 'gr00t_n9'; known: .*gr00t_n17.*smolvla", family="gr00t_n9")
    refuse(root, r"family 'pi0' asked for, but this is 'gr00t_n17'", family="pi0")
    edit(root / "config.json", lambda c: (c.clear(), c.update(type="octo")))
    refuse(root, r"cannot tell the model family from .*\['octo'\]; known families: gr00t_n17, pi0")


def test_device_and_dtype(root):
    refuse(root, r"dtype 'int8' is not supported; known: float32, bfloat16", dtype="int8")
    refuse(root, r"device 'tpu' is not one", device="tpu")
    refuse(root, r"device 'mps' is not supported; known: cpu", device="mps")
    if not torch.cuda.is_available():
        refuse(root, r"device 'cuda': torch sees 0 CUDA devices here; try cpu", device="cuda")


@needs_golden
@pytest.mark.parametrize(
    ("fixture", "family"),
    [
        ("groot_n17", "gr00t_n17"), ("pi0", "pi0"), ("pi05", "pi05"), ("pi0_openpi", "pi0"),
        ("pi05_openpi", "pi05"), ("smolvla", "smolvla"), ("act", "act"),
        ("diffusion", "diffusion"), ("diffusion_gn", "diffusion"),
    ],
)  # fmt: skip
def test_detection(fixture, family):
    assert registry.detect(Checkpoint(GOLDEN / fixture)) == family


def test_aliases():
    assert registry.resolve("gr00t") == registry.resolve("GROOT") == "gr00t_n17"
    assert registry.resolve("pi0.5") == "pi05"


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 2)
        self.norm = nn.BatchNorm1d(2)


def checkpoint_of(tmp_path, weights):
    (tmp_path / "config.json").write_text("{}")
    save_file(weights, tmp_path / "model.safetensors")
    return Checkpoint(tmp_path)


def test_fill(tmp_path):
    """Renaming, ignoring, tying, buffers, a dtype by name; nothing of the file stays mapped."""
    embedding = torch.randn(4, 2)
    weights = {
        "m.head.weight": embedding,
        "m.norm.weight": torch.ones(2),
        "m.norm.bias": torch.zeros(2),
        "m.norm.running_mean": torch.tensor([1.0, 2.0]),
        "m.norm.running_var": torch.tensor([3.0, 4.0]),
        "m.norm.num_batches_tracked": torch.tensor(7),
        "other.weight": torch.ones(1),
    }
    checkpoint = checkpoint_of(tmp_path, weights)
    with torch.device("meta"):
        module = Tied()
    checkpoint.fill(
        module,
        device=CPU,
        dtype=lambda name: torch.bfloat16 if name.startswith("embed") else torch.float32,
        rename=lambda key: key.removeprefix("m."),
        ignore=[r"other\..*"],
        tied={"embed.weight": "m.head.weight"},
    )
    (tmp_path / "model.safetensors").write_bytes(b"gone")
    assert torch.equal(module.embed.weight, embedding.bfloat16())
    assert module.norm.weight.dtype == torch.float32
    assert torch.equal(module.norm.running_var, torch.tensor([3.0, 4.0]))
    assert module.norm.num_batches_tracked.item() == 7
    assert not any(p.requires_grad for p in module.parameters())


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("there", [True, False])
def test_the_progress_bar_is_for_a_terminal(tmp_path, monkeypatch, there):
    checkpoint = checkpoint_of(tmp_path, {"weight": torch.zeros(4, 2)})
    with torch.device("meta"):
        module = nn.Embedding(4, 2)
    said = Terminal() if there else io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    checkpoint.fill(module, device=CPU, dtype=torch.float32)
    assert (f"loading {tmp_path.name}" in said.getvalue()) == there
    assert there or not said.getvalue()


def test_fill_refuses_what_it_would_have_to_guess(tmp_path):
    weights = {"embed.weight": torch.zeros(4, 2), "x.embed.weight": torch.zeros(4, 2)}
    checkpoint = checkpoint_of(tmp_path, weights)
    with torch.device("meta"):
        module = nn.ModuleDict({"embed": nn.Embedding(4, 2)})
    with pytest.raises(PolicyError, match=r"unexpected: 'x.embed.weight'"):
        checkpoint.fill(module, device=CPU, dtype=torch.float32)
    with pytest.raises(PolicyError, match=r"keys .* and .* are both 'embed.weight'"):
        checkpoint.fill(
            module, device=CPU, dtype=torch.float32, rename=lambda k: k.removeprefix("x.")
        )
