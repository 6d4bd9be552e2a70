# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot before its processor files (0.3 and older): statistics are buffers of the weights,
``normalize_inputs.buffer_<feature with _ for .>.<statistic>``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from phyai_ros.engine.files import check_inside, is_there, unreadable

WEIGHTS = "model.safetensors"
KEYS = r"(normalize_inputs|normalize_targets|unnormalize_outputs)\..*"
"""Regular expression of the weight keys that hold statistics: no model's."""
_INPUTS, _OUTPUTS = "normalize_inputs.buffer_", "unnormalize_outputs.buffer_"


def statistics(
    directory: Path, inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[Mapping[str, Mapping[str, np.ndarray]], Mapping[str, Mapping[str, np.ndarray]]] | None:
    """Feature key -> statistic -> float32 array, of the inputs and of the outputs; None where the
    weights hold none. inputs, outputs: feature keys of config.json. Raises PolicyError when the
    weights cannot be read."""
    file = directory / WEIGHTS
    if not is_there(file):
        return None
    check_inside(file)
    try:
        with safe_open(file, framework="pt") as weights:
            keys = [k for k in weights.keys() if k.startswith((_INPUTS, _OUTPUTS))]  # noqa: SIM118
            held = {key: weights.get_tensor(key).float().numpy() for key in keys}
    except (OSError, SafetensorError) as error:
        raise unreadable(file, error) from None
    if not held:
        return None
    return _of(held, _INPUTS, inputs), _of(held, _OUTPUTS, outputs)


def _of(
    held: Mapping[str, np.ndarray], prefix: str, features: Sequence[str]
) -> dict[str, dict[str, np.ndarray]]:
    found: dict[str, dict[str, np.ndarray]] = {}
    for feature in features:
        start = f"{prefix}{feature.replace('.', '_')}."
        found[feature] = {k.removeprefix(start): v for k, v in held.items() if k.startswith(start)}
    return found
