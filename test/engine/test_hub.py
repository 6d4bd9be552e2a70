# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Hub ids: from the cache without a connection, at a revision, and clear refusals."""

import importlib.util
import shutil
from pathlib import Path

import pytest
from golden import GOLDEN, needs_golden

from phyai_ros.engine import embedded, hub
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """The hub client's own cache layout, and no network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def cached(cache, source):
    repository = cache / "models--lab--tiny-gr00t"
    shutil.copytree(source, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    (repository / "refs" / "v1").write_text(COMMIT)


@needs_golden
@pytest.mark.parametrize("revision", [None, "v1", COMMIT])
def test_cached_checkpoint_loads_offline(offline, revision):
    cached(offline, GOLDEN / "groot_n17")
    policy = load_policy("lab/tiny-gr00t", embodiment="new_embodiment", revision=revision)
    assert policy.spec.checkpoint.endswith(COMMIT)


@needs_golden
def test_a_name_may_pin_the_revision(offline):
    """As on the launch line, which has no other place for it; it goes before the model's own."""
    cached(offline, GOLDEN / "groot_n17")
    for revision in (None, "main"):
        assert hub.resolve("lab/tiny-gr00t@v1", revision).name == COMMIT
        with pytest.raises(PolicyError, match=r"'lab/tiny-gr00t' at revision 'v2'"):
            hub.resolve("lab/tiny-gr00t@v2", revision)


def test_not_cached(offline):
    with pytest.raises(PolicyError, match=r"'lab/absent'.*not in the hub cache, and the hub"):
        hub.resolve("lab/absent")


@needs_golden
def test_revision_not_cached(offline):
    cached(offline, GOLDEN / "groot_n17")
    with pytest.raises(PolicyError, match=r"'lab/tiny-gr00t' at revision 'v2'"):
        hub.resolve("lab/tiny-gr00t", "v2")


def test_neither_path_nor_id(tmp_path):
    (tmp_path / "gr00t_small").mkdir()
    with pytest.raises(
        PolicyError, match=r"not a hub id \(owner/name\); directories in .*: gr00t_small$"
    ):
        hub.resolve(tmp_path / "gr00t_smal")


def test_a_file_of_a_checkpoint_is_answered_with_its_folder(tmp_path):
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(PolicyError) as caught:
        hub.resolve(str(file))
    assert f"expected a directory, found a file: give the one that it is in, '{tmp_path}'" in str(
        caught.value
    )


def test_a_directory_is_itself(tmp_path):
    assert hub.resolve(tmp_path) == tmp_path


def test_an_embedded_checkpoint_by_its_name(offline, monkeypatch):
    monkeypatch.chdir(offline)
    policy = load_policy("gr00t_ur10e_small")
    assert policy.spec.checkpoint.endswith("phyai_ros/checkpoints/gr00t_ur10e_small")
    (offline / "gr00t_ur10e_small").mkdir()  # a directory that was named goes before
    assert hub.resolve("gr00t_ur10e_small").resolve() == offline / "gr00t_ur10e_small"


def test_a_tree_of_links_has_the_embedded_checkpoints(tmp_path):
    """As ``colcon build --symlink-install`` makes it: directories of its own, every file a link."""
    source = Path(embedded.__file__).resolve().parents[1]
    name = "act_aloha_small"
    files = [source / "engine" / "embedded.py", *(source / "checkpoints" / name).iterdir()]
    for file in files:
        link = tmp_path / "phyai_ros" / file.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    spec = importlib.util.spec_from_file_location(
        "linked", tmp_path / "phyai_ros" / "engine" / "embedded.py"
    )
    linked = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(linked)
    assert linked.__file__.startswith(str(tmp_path))
    assert name in linked.names()
    assert Checkpoint(linked.find(name)).config["type"] == "act"


def test_a_bare_word_is_not_answered_with_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "unrelated").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError) as refusal:
        hub.resolve("gr00t_ur10e_smal")
    assert "gr00t_ur10e_small" in str(refusal.value)
    assert "unrelated" not in str(refusal.value)


@pytest.mark.parametrize("name", ["~nobody-of-that-name/arm", "x" * 5000, "a\0b"])
def test_a_name_that_can_be_no_path_is_refused_like_any_other(offline, name):
    with pytest.raises(PolicyError, match="no such directory"):
        hub.resolve(name)


def test_an_id_that_the_hub_would_not_take(offline):
    with pytest.raises(PolicyError, match=r"'lab/a--b': no such directory, and not a hub id: .*--"):
        hub.resolve("lab/a--b")


def test_a_repository_with_terms_is_not_said_to_be_missing(monkeypatch):
    """PaliGemma's tokenizer and Cosmos-Reason2 are such."""
    from huggingface_hub.errors import GatedRepoError

    def refuse(*_, **__):
        raise GatedRepoError.__new__(GatedRepoError)  # its arguments differ between versions

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(PolicyError, match=r"'lab/gated': .*on request alone: accept the terms"):
        hub.resolve("lab/gated")
