# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which storage files make up a bag, finished or not, and what is unusual about them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SUFFIXES = (".mcap", ".db3")
PACKED = ".zstd"
"""What rosbag2 appends to a storage file that it compressed whole."""
CUT_OFF = "its recording was cut off; read as far as it goes"
LARGEST_METADATA = 16 << 20
_METADATA = "metadata.yaml"


class BagError(ValueError):
    """A bag that cannot be read; the text names the file and what is wrong with it."""


@dataclass
class BagFiles:
    """paths: storage files in the order in which they were begun. notes: for people."""

    paths: list[Path]
    notes: list[str] = field(default_factory=list)


def find(path: Path) -> BagFiles:
    """path: a rosbag2 directory, or one of its storage files. Raises BagError.

    ``metadata.yaml`` says only which files belong to the bag: a recorder that was killed wrote
    none, or nothing of its last file, and what topics there are, each file knows better itself.
    """
    if not path.exists():
        raise BagError(f"{path}: there is no such bag")
    if not path.is_dir():
        if not is_storage(path):
            raise BagError(f"{path}: no bag: expected a file *.mcap or *.db3, or a folder with one")
        return BagFiles([path])
    there = _in_order(file for file in path.iterdir() if is_storage(file) and file.is_file())
    there = [file for file in there if not (file.suffix == PACKED and _plain(file) in there)]
    if not there:
        raise BagError(f"{path}: no bag: expected a file *.mcap or *.db3 in it")
    if not (path / _METADATA).is_file():
        return BagFiles(there, [CUT_OFF])
    try:
        names = _listed(path / _METADATA)
    except (ValueError, OSError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        return BagFiles(there, [f"{_METADATA} cannot be read ({reason}); read without it"])
    return _chosen(there, names)


def _chosen(there: list[Path], names: list[str]) -> BagFiles:
    """Those that are listed, and later ones of the same recorder, which numbers them."""
    listed = {_key(name) for name in names}
    series = {match[1] for match in map(_NUMBERED.match, listed) if match}
    chosen, notes = [], []
    for file in there:
        match = _NUMBERED.match(_key(file.name))
        if _key(file.name) in listed:
            chosen.append(file)
        elif match and match[1] in series:
            chosen.append(file)
            notes.append(f"{file.name} is not in {_METADATA}: {CUT_OFF}")
    missing = listed - {_key(file.name) for file in chosen}
    notes += [f"{name} is missing" for name in names if _key(name) in missing]
    if not chosen:
        notes = [f"{_METADATA} names {', '.join(names) or 'no file'}; read without it"]
    return BagFiles(chosen or there, notes)


_NUMBERED = re.compile(r"(.*_)\d+\.[a-z0-9]+")


def _listed(file: Path) -> list[str]:
    """Names of storage files. Earlier versions wrote paths that begin with the bag's own name."""
    if file.stat().st_size > LARGEST_METADATA:
        raise ValueError(f"more than {LARGEST_METADATA >> 20} MB")
    document: Any = yaml.safe_load(file.read_text("utf-8"))
    try:
        names = document["rosbag2_bagfile_information"]["relative_file_paths"]
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError("it names no relative_file_paths") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("relative_file_paths: expected a list of names")
    return [Path(name).name for name in names]


def is_storage(file: Path) -> bool:
    """Whether a file's name is that of a bag's storage, compressed or not."""
    return Path(_key(file.name)).suffix in SUFFIXES


def _key(name: str) -> str:
    """The name as it is before compression: a person may have unpacked or packed a file."""
    return name.removesuffix(PACKED)


def _plain(file: Path) -> Path:
    return file.with_name(_key(file.name))


def _in_order(files: Iterable[Path]) -> list[Path]:
    """By name, numbers in it as numbers: bag_10 comes after bag_9."""

    def parts(file: Path) -> list[tuple[int, str]]:
        return [
            (int(part), "") if part.isdecimal() else (-1, part)
            for part in re.split(r"(\d+)", file.name)
        ]

    return sorted(files, key=parts)
