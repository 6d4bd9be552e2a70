# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where configuration files are found, and how what is wrong in one is said."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from phyai_ros.robots.errors import RobotError
from phyai_ros.robots.yaml_file import read_yaml, shown

ModelT = TypeVar("ModelT", bound=BaseModel)
SUFFIXES = (".yaml", ".yml")
LONGEST_NAME = 1024
"""Characters of a name or path."""
MOST_PROBLEMS = 20
"""Problems of one file that are told; the rest is counted."""
_WORDS = {
    "tuple_type": "expected a list, [a, b]",
    "list_type": "expected a list, [a, b]",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
    "model_attributes_type": "expected keys and values",
}
"""Of a problem's type, where pydantic speaks of Python's types to people who write YAML."""
GAP = "FILL_IN"
"""What ``phyai-ros init-robot`` writes where only a person knows the value."""


def config_dirs() -> list[Path]:
    """Existing ``config`` folders, best first: of the source checkout this module lies in, of the
    colcon or ROS prefixes that are sourced, of the prefix this module is installed under."""
    module = Path(__file__)
    roots = [module.parents[2] / "config", module.resolve().parents[2] / "config"]
    prefixes = [Path(p) for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    prefixes += [*module.parents[2:7], Path(sys.prefix)]
    roots += [prefix / "share" / "phyai_ros" / "config" for prefix in prefixes]
    found: list[Path] = []
    for root in roots:
        if (root / "robots").is_dir() and root not in found:
            found.append(root)
    return found


def names(kind: str) -> list[str]:
    """Names of the files of a kind (``robots``, ``models``), sorted."""
    return sorted(
        {f.stem for d in config_dirs() for f in (d / kind).glob("*") if f.suffix in SUFFIXES}
    )


def find(kind: str, name_or_path: str | Path) -> Path:
    """A name in ``config/<kind>`` or a file's alias (its key ``aliases``), or a path to a file.
    Raises RobotError that lists the names."""
    text = str(name_or_path)
    if len(text) > LONGEST_NAME:
        raise RobotError(
            f"{kind[:-1]} {shown(text)}: expected at most {LONGEST_NAME} characters, "
            f"found {len(text)}"
        )
    path = Path(os.path.expanduser(text))  # a user that is unknown stays as it is written
    if path.suffix in SUFFIXES or path.parent != Path():
        if _is_file(path):
            return path
        raise RobotError(
            f"{kind[:-1]} file {text!r} does not exist; by name there are {names(kind)}"
        )
    for directory in config_dirs():
        for suffix in SUFFIXES:
            file = directory / kind / (text + suffix)
            if _is_file(file):
                return file
    for directory in config_dirs():
        for file in sorted((directory / kind).glob("*")):
            if file.suffix in SUFFIXES and text.lower() in _aliases(file):
                return file
    here = [text + suffix for suffix in SUFFIXES if _is_file(Path(text + suffix))]
    hint = f" (do you mean the file {here[0]!r}?)" if here else ""
    raise RobotError(
        f"{kind[:-1]} {text!r} is unknown: expected one of {names(kind)} or the path of a YAML "
        f"file{hint}"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long for the file system, a zero byte
        return False


def _aliases(file: Path) -> list[str]:
    """None of a file that cannot be read: its fault is said where the file itself is asked for."""
    try:
        found = read_yaml(file).get("aliases")
    except RobotError:
        return []
    return [str(alias) for alias in found] if isinstance(found, list) else []


def read_extended(kind: str, path: Path) -> dict[str, Any]:
    """As ``read_yaml``, laid over the file that its key ``extends`` names, if it has one: mappings
    are joined key by key, everything else is replaced. Raises RobotError."""
    return _extended(kind, path, ())


def _extended(kind: str, path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in below:
        chain = " -> ".join(p.name for p in (*below, path))
        raise RobotError(f"{path}: extends: expected a file that does not lead back, found {chain}")
    data = read_yaml(path)
    base = data.pop("extends", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise RobotError(f"{path}: extends: expected a name or a YAML file, found {shown(base)}")
    beside = path.parent / base  # a path is meant from the file that says it
    try:
        found = find(kind, beside if beside.suffix in SUFFIXES and beside.is_file() else base)
    except RobotError as error:
        raise RobotError(f"{path}: extends: {error}") from error
    return _laid_over(_extended(kind, found, (*below, path.resolve())), data)


def _laid_over(base: Any, data: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(data, dict)):
        return data
    return {
        key: _laid_over(base[key], data[key])
        if key in base and key in data
        else data.get(key, base.get(key))
        for key in {**base, **data}
    }


def validate(model: type[ModelT], data: Any, source: str) -> ModelT:
    """Data -> model. Raises RobotError with one line a problem: source, key, expected, found."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems, lines = error.errors(), []
        open_ = [p for p in problems if p["input"] == GAP and p["type"] != "extra_forbidden"]
        gaps = [".".join(map(str, p["loc"])) for p in open_]
        if gaps:
            lines.append(f"{source}: {len(gaps)} still {GAP}: {', '.join(gaps)}")
        problems = [p for p in problems if p not in open_]
        deep = {p["loc"][:n] for p in problems for n in range(len(p["loc"]))}
        # A list of which an entry was refused is not short as well.
        problems = [p for p in problems if p["type"] != "too_short" or p["loc"] not in deep]
        for problem in problems[:MOST_PROBLEMS]:
            key = ".".join(str(part) for part in problem["loc"]) or "(top level)"
            if problem["type"] == "extra_forbidden":
                lines.append(f"{source}: {key}: unknown key; known here: {_known(model, problem)}")
            elif problem["type"] == "missing":
                lines.append(f"{source}: {key}: missing")
            else:
                text = _WORDS.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
                # Of a rule between keys the input is the whole file: its text says what is wrong.
                found = f", found {shown(problem['input'])}" if problem["loc"] else ""
                lines.append(f"{source}: {key}: {text}{found}")
        if len(problems) > MOST_PROBLEMS:
            lines.append(f"{source}: ... {len(problems)} problems in all")
        raise RobotError("\n".join(lines)) from error


def _known(model: type[BaseModel], problem: Any) -> list[str]:
    """Keys the model at the problem's place has, as far as the place is plain to see."""
    current: Any = model
    for part in problem["loc"][:-1]:
        fields = getattr(current, "model_fields", None)
        if fields and part in fields:  # else: a name within a dict or list of such models
            current = _inner(fields[part].annotation)
    return sorted(getattr(current, "model_fields", {}))


def _inner(annotation: Any) -> Any:
    """The model inside ``dict[str, Model]``, ``list[Model]`` or ``Model | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in reversed(getattr(annotation, "__args__", ())):
        found = _inner(argument)
        if found is not None:
            return found
    return None
