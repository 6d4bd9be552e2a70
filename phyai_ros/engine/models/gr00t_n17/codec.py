# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""State and actions between robot units and the model's padded, normalised vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phyai_ros.engine.models.gr00t_n17 import rotation
from phyai_ros.engine.models.gr00t_n17.sidecars import MEASURED, Sidecars
from phyai_ros.engine.normalize import GrootRange, numbers, statistics
from phyai_ros.engine.types import FeatureSpec, PolicyError

_STATISTICS = ("mean", "q01", "min", "max", "std")
_EEF = "xyz+rot6d"


@dataclass(frozen=True)
class Group:
    """A named slice. reference: the state group that a relative action is relative to, None for
    an absolute one. pose: compose as a pose, else add."""

    spec: FeatureSpec
    columns: slice
    normaliser: GrootRange
    reference: slice | None = None
    pose: bool = False


class Codec:
    """The chosen embodiment's layout. horizon: rows that its actions have."""

    def __init__(self, sidecars: Sidecars, max_state: int, max_action: int, horizon: int):
        self.max_state, self.max_action = max_state, max_action
        self.state = _state_groups(sidecars)
        self.action = _action_groups(sidecars, self.state)
        deltas = (sidecars.modality.get("action") or {}).get("delta_indices") or []
        lengths = (horizon, len(deltas) or horizon, sidecars.horizon or horizon)
        self.horizon = min(lengths)
        self.state_dim = sum(g.spec.size for g in self.state)
        self.action_dim = sum(g.spec.size for g in self.action)
        where = sidecars.where["modality"]
        for name, found, most in (
            ("state", self.state_dim, max_state),
            ("action", self.action_dim, max_action),
        ):
            if found > most:
                raise PolicyError(f"{where}.{name}: {found} columns, but the model has {most}")
        for group in self.action:
            _check_rows(group, self.horizon, sidecars)
        self._libero = _libero_column(sidecars, self.action) if sidecars.libero else None

    def encode_state(self, state: np.ndarray) -> np.ndarray:
        """[state_dim] raw -> float32 [max_state], normalised, zero padded."""
        raw = np.asarray(state, np.float32)
        out = np.zeros(self.max_state, np.float32)
        for group in self.state:
            out[group.columns] = group.normaliser.normalise(raw[group.columns])
        return out

    def decode(self, actions: np.ndarray, state: np.ndarray) -> np.ndarray:
        """float32 [rows, max_action] normalised -> float64 [horizon, action_dim], absolute.
        state: raw, of the same observation."""
        rows = np.asarray(actions, np.float32)[: self.horizon]
        raw = np.asarray(state, np.float32)
        parts = []
        for group in self.action:
            part = group.normaliser.unnormalise(rows[:, group.columns])
            if group.reference is not None:
                reference = raw[group.reference]
                if group.pose:
                    part = rotation.compose(part, reference).astype(np.float32)
                else:
                    part = part + reference
            parts.append(part)
        out = np.concatenate(parts, axis=-1).astype(np.float64)
        if self._libero is not None:
            out[:, self._libero] = np.sign(1.0 - 2.0 * out[:, self._libero])
        return out

    def encode(self, actions: np.ndarray, state: np.ndarray) -> np.ndarray:
        """The inverse of ``decode``, unclipped: [rows, action_dim] -> float32
        [rows, max_action]. (A LIBERO gripper's sign goes back to 0 or 1.)"""
        rows = np.asarray(actions, np.float64)
        raw = np.asarray(state, np.float32)
        if self._libero is not None:
            rows = rows.copy()
            rows[:, self._libero] = (1.0 - rows[:, self._libero]) / 2.0
        out = np.zeros((len(rows), self.max_action), np.float32)
        for group in self.action:
            part = rows[:, group.columns]
            if group.reference is not None:
                reference = raw[group.reference]
                part = rotation.difference(part, reference) if group.pose else part - reference
            free = GrootRange(group.normaliser.low, group.normaliser.high, clip=False)
            out[:, group.columns] = free.as_trained(part.astype(np.float32))
        return out


def _check_rows(group: Group, horizon: int, sidecars: Sidecars) -> None:
    """Statistics are one a column, or one a time step and column; those reach over the chunk."""
    shape = group.normaliser.low.shape
    if len(shape) == 1 or (len(shape) == 2 and shape[0] >= horizon):
        return
    kind = "relative_action" if group.spec.relative else "action"
    size = group.spec.size
    raise PolicyError(
        f"{sidecars.where['statistics']}.{kind}.{group.spec.name}: expected statistics of shape "
        f"[{size}], or [{horizon} or more, {size}] for the chunk's rows, found {list(shape)}"
    )


def _libero_column(sidecars: Sidecars, groups: Sequence[Group]) -> int:
    """The gripper's: of the group of that name; of a vector without groups the last."""
    if len(groups) == 1:
        return groups[0].columns.stop - 1
    found = next((g for g in groups if g.spec.name == "gripper"), None)
    if found is None or found.spec.size != 1:
        raise PolicyError(
            f"{sidecars.where['modality']}.action: LIBERO's gripper needs a group 'gripper' of one "
            f"column; there are: {', '.join(f'{g.spec.name} of {g.spec.size}' for g in groups)}"
        )
    return found.columns.start


def _state_groups(sidecars: Sidecars) -> tuple[Group, ...]:
    names, _ = _keys(sidecars, "state")
    mode = "quantiles" if sidecars.use_percentiles else "min_max"
    groups, at = [], 0
    for name in names:
        where = f"{sidecars.where['statistics']}.state.{name}"
        entry = _entry(sidecars, "state", name)
        size = size_of(entry, where)
        low, high = statistics(entry, mode, where, size)
        if low.ndim != 1:
            raise PolicyError(f"{where}: expected {size} numbers, found shape {list(low.shape)}")
        known = _arrays(entry, where) if entry.get(MEASURED, True) else {}
        spec = FeatureSpec(name, size, mode, False, known)
        normaliser = GrootRange(low, high, clip=sidecars.clip_outliers)
        groups.append(Group(spec, slice(at, at + size), normaliser))
        at += size
    return tuple(groups)


def _action_groups(sidecars: Sidecars, state: Sequence[Group]) -> tuple[Group, ...]:
    names, configs = _keys(sidecars, "action")
    groups, at = [], 0
    for i, name in enumerate(names):
        where = f"{sidecars.where['statistics']}.action.{name}"
        config = configs[i] if i < len(configs) else {}
        size = size_of(_entry(sidecars, "action", name), where)
        relative = sidecars.use_relative_action and _word(config.get("rep")) == "relative"
        # Relative statistics are never percentiles in the reference, whatever the checkpoint says.
        kind = "relative_action" if relative else "action"
        mode = "quantiles" if sidecars.use_percentiles and not relative else "min_max"
        entry = _entry(sidecars, kind, name)
        where = f"{sidecars.where['statistics']}.{kind}.{name}"
        low, high = statistics(entry, mode, where, size)
        spec = FeatureSpec(name, size, mode, relative, _arrays(entry, where))
        reference = _reference(sidecars, name, config, state, size) if relative else None
        groups.append(
            Group(
                spec,
                slice(at, at + size),
                GrootRange(low, high),
                reference,
                pose=relative and _word(config.get("type")) == "eef",
            )
        )
        at += size
    return tuple(groups)


def _reference(
    sidecars: Sidecars, name: str, config: Mapping[str, Any], state: Sequence[Group], size: int
) -> slice:
    where = f"{sidecars.where['modality']}.action.{name}"
    key = config.get("state_key") or name
    found = next((g for g in state if g.spec.name == key), None)
    if found is None:
        raise PolicyError(
            f"{where}: relative to state {key!r}, which is not there; "
            f"there are: {', '.join(g.spec.name for g in state)}"
        )
    kind, form = _word(config.get("type")), _word(config.get("format"))
    if kind not in ("eef", "non_eef") or (kind == "eef" and form != _EEF):
        raise PolicyError(
            f"{where}: relative action type {kind!r}, format {form!r} is not supported; "
            f"known: non_eef, eef with {_EEF}"
        )
    if found.spec.size != size or (kind == "eef" and size != 9):
        expected = 9 if kind == "eef" else size
        raise PolicyError(f"{where}: state {key!r}: expected {expected}, found {found.spec.size}")
    return found.columns


def _keys(sidecars: Sidecars, modality: str) -> tuple[list[str], list[Mapping[str, Any]]]:
    part = sidecars.modality.get(modality)
    where = sidecars.where["modality"]
    if not isinstance(part, Mapping) or not part.get("modality_keys"):
        raise PolicyError(
            f"{where}.{modality}.modality_keys missing; there are: {', '.join(sidecars.modality)}"
        )
    return list(part["modality_keys"]), list(part.get("action_configs") or [])


def _entry(sidecars: Sidecars, kind: str, name: str) -> Mapping[str, Any]:
    groups = sidecars.statistics.get(kind) or {}
    entry = groups.get(name)
    if not isinstance(entry, Mapping):
        raise PolicyError(
            f"{sidecars.where['statistics']}.{kind}: no statistics for {name!r}; "
            f"there are: {', '.join(groups) or 'none'}"
        )
    return entry


def size_of(entry: Mapping[str, Any], where: str) -> int:
    """Columns of a group, by its statistics. where: names them in a PolicyError."""
    for name in _STATISTICS:
        value = entry.get(name)
        if isinstance(value, list) and value:
            return len(value[0]) if isinstance(value[0], list) else len(value)
    raise PolicyError(f"{where}: no statistics; there are: {', '.join(entry) or 'none'}")


def _arrays(entry: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    return {
        k: numbers(v, f"{where}: statistic {k!r}") for k, v in entry.items() if isinstance(v, list)
    }


def _word(value: Any) -> str:
    """The configuration's spellings: RELATIVE, ActionRep.RELATIVE, XYZ_ROT6D, xyz+rot6d."""
    text = str(value).lower().rpartition(".")[2]
    return {"xyz_rot6d": _EEF, "xyz_rotvec": "xyz+rotvec"}.get(text, text)
