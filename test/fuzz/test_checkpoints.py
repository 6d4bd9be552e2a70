# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint from anybody: a policy, or a PolicyError that names the file. Nothing outside its
directory is read, nothing is run, and no number in it makes loading endless."""

import json
import os
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzzing import altered, damaged, fuzz, nested, outcome, places
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from phyai_ros.engine import embedded
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.fields import check_fields
from phyai_ros.engine.files import LARGEST_JSON, read_json
from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError
from phyai_ros.tools import check_inputs

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
import other_sizes
from golden import GOLDEN

SOURCES = {
    "gr00t": embedded.find("gr00t_ur10e_small"),
    "pi05": embedded.find("pi05_ur10e_small"),
    **{
        name: GOLDEN / name
        for name in ("act", "diffusion", "smolvla", "pi0", "groot_n17")
        if (GOLDEN / name / "config.json").is_file()
    },
}
families = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
DESCRIPTIONS = (
    "config.json", "architecture.json", "processor_config.json", "preprocessor_config.json"
)  # fmt: skip
TABLES = ("tokenizer.json", "cases.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


def copied(source: Path, folder: Path) -> Path:
    """A copy; where the disk is the same, its files are the originals under another name."""
    target = folder / source.name
    shutil.rmtree(target, ignore_errors=True)
    linked = source.stat().st_dev == folder.stat().st_dev
    shutil.copytree(source, target, copy_function=os.link if linked else shutil.copy)
    return target


def write(file: Path, data: str | bytes) -> None:
    file.unlink(missing_ok=True)  # it may be a link to the original
    file.write_bytes(data if isinstance(data, bytes) else data.encode())


@families
@fuzz
@given(data=st.data())
def test_any_value_in_any_json_file(source, folder, data):
    target = copied(source, folder)
    names = sorted(f.name for f in target.glob("*.json") if f.name not in TABLES)
    name = data.draw(st.sampled_from(names))
    content = data.draw(altered(json.loads((target / name).read_text())))
    write(target / name, json.dumps(content))
    policy, refusal = outcome(PolicyError, lambda: load_policy(target))
    assert policy is not None or str(target) in refusal


@families
@fuzz
@given(data=st.data())
def test_any_damage_to_any_file(source, folder, data):
    target = copied(source, folder)
    file = target / data.draw(
        st.sampled_from(
            sorted(f.name for f in target.iterdir() if f.is_file() and "cases" not in f.name)
        )
    )
    content = file.read_bytes()
    head, tail = content[:20_000], content[20_000:]  # what is inside a tensor is a number, any is
    broken = data.draw(damaged(head))
    write(file, broken + (tail if data.draw(st.booleans()) else b""))
    outcome(PolicyError, lambda: load_policy(target))


def test_numbers_without_an_end_are_refused_not_built(folder):
    target = copied(SOURCES["gr00t"], folder)
    architecture = json.loads((target / "architecture.json").read_text())
    architecture["backbone"]["vision_config"]["depth"] = 10**12
    write(target / "architecture.json", json.dumps(architecture))
    says = r"architecture\.json: backbone\.vision_config: depth: expected a whole number .* 512"
    with pytest.raises(PolicyError, match=says):
        load_policy(target)


@pytest.mark.parametrize("value", [True, 1.5, "8", None, [8], -2, 10**9, float("nan")])
def test_a_field_of_another_kind_is_refused_by_name(value):
    config = ActConfig(("a",), 7, 0, 7)
    object.__setattr__(config, "n_heads", value)
    with pytest.raises(PolicyError, match=r"config.json: n_heads: expected a whole number"):
        check_fields(config, "config.json")


@pytest.mark.parametrize("layout", other_sizes.LAYOUTS)
def test_no_number_of_a_description_is_found_out_at_a_request(layout, folder):
    """Zero or below zero is refused at loading where nothing can be made of it: not by a division
    in the first request, nor by actions that are not finite."""
    root = folder / f"numbers_{layout}"
    root.mkdir()
    other_sizes.LAYOUTS[layout](root)
    refused = 0
    for file in (root / name for name in DESCRIPTIONS if (root / name).is_file()):
        text = file.read_text()
        for path in places(json.loads(text)):
            content = place = json.loads(text)
            for key in path[:-1]:
                place = place[key]
            if not path or type(place[path[-1]]) not in (int, float):
                continue
            for number in (0, -1):
                place[path[-1]] = number
                file.write_text(json.dumps(content))
                policy, _ = outcome(PolicyError, lambda: load_policy(root))
                refused += policy is None
                if policy is not None:
                    (seen,) = check_inputs.observations(policy.spec, 1)
                    assert np.isfinite(policy.infer(seen).actions).all()
        file.write_text(text)
    assert refused > 5


# -- paths ---------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    """The smallest checkpoint directory, and beside it something that is not its own."""
    inside, outside = tmp_path / "checkpoint", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    (inside / "config.json").write_text('{"type": "act"}')
    save_file({"w": np.zeros(2, np.float32)}, inside / "model.safetensors")
    save_file({"secret": np.ones(2, np.float32)}, outside / "model.safetensors")
    (outside / "config.json").write_text('{"secret": 1}')
    return inside


@pytest.mark.parametrize(
    "shard",
    ["../elsewhere/model.safetensors", "{outside}/model.safetensors", "/etc/passwd", "..", ".", "",
     "a\\b.safetensors", "a\0b", 7, None, ["x"], {}],
)  # fmt: skip
def test_an_index_names_only_files_beside_it(small, shard):
    if isinstance(shard, str):
        shard = shard.replace("{outside}", str(small.parent / "elsewhere"))
    (small / "model.safetensors").unlink()  # which goes before an index
    (small / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))
    with pytest.raises(PolicyError, match=r"index\.json.*nothing outside its own directory"):
        Checkpoint(small).files  # noqa: B018


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_out_of_the_directory_is_not_followed(small, name):
    (small / name).unlink()
    (small / name).symlink_to(small.parent / "elsewhere" / name)
    with pytest.raises(PolicyError, match=f"{name}: expected a file of this directory, found a l"):
        Checkpoint(small).tensor("secret")


def test_a_link_to_a_device_or_a_pipe_is_no_file(small):
    (small / "config.json").unlink()
    (small / "config.json").symlink_to("/dev/zero")
    with pytest.raises(PolicyError, match=r"config\.json: expected a file, found a device, a pipe"):
        Checkpoint(small)
    (small / "config.json").unlink()
    os.mkfifo(small / "config.json")
    with pytest.raises(PolicyError, match=r"config\.json: expected a file, found a device, a pipe"):
        Checkpoint(small)


def test_links_of_the_hubs_cache_and_a_linked_directory_are_its_own(small, tmp_path):
    repository = tmp_path / "models--owner--name"
    (repository / "blobs").mkdir(parents=True)
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for i, name in enumerate(("config.json", "model.safetensors")):
        shutil.move(small / name, repository / "blobs" / f"{i:064}")
        (snapshot / name).symlink_to(Path("..") / ".." / "blobs" / f"{i:064}")
    link = tmp_path / "link"
    link.symlink_to(snapshot)
    for root in (snapshot, link):
        assert Checkpoint(root).keys == ("w",)


# -- headers and JSON ----------------------------------------------------------------------------


def header(body: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(body) if size is None else size) + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        header(b"{}", 2**63),
        header(b"{}", 2**40),
        header(b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'),
        header(b'{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}'),
        header(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}') + b"\0" * 8,
        header(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}') + b"\0" * 8,
        header(b'{"w":{"dtype":"X","shape":[2],"data_offsets":[0,8]}}') + b"\0" * 8,
        header(b'{"__metadata__":7}'),
        header(nested(5000).encode()),
        header(b"\xff\xfe{}"),
    ],
    ids=lambda data: f"{data[:12].hex()}:{len(data)}",
)
def test_a_weight_file_that_lies_about_itself_is_refused(small, data):
    write(small / "model.safetensors", data)
    with pytest.raises(PolicyError, match=r"model\.safetensors: not readable as safetensors"):
        Checkpoint(small).tensor("w")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (nested(100_000), "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ('{"a": "\\ud800"', "not valid JSON"),
        ("[]", "expected an object, found list"),
        ("null", "expected an object, found NoneType"),
        ("", "not valid JSON"),
        ("\ufeff{}", "not valid JSON"),
    ],
    ids=["objects", "lists", "digits", "text", "list", "null", "empty", "mark"],
)
def test_json_that_is_none_is_refused(tmp_path, text, word):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(PolicyError, match=word) as refusal:
        read_json(file)
    assert str(file) in str(refusal.value)


def test_json_has_a_size(tmp_path):
    file = tmp_path / "config.json"
    with file.open("wb") as sparse:
        sparse.truncate(LARGEST_JSON + 1)
    with pytest.raises(PolicyError, match="at most 64 MB"):
        read_json(file)
