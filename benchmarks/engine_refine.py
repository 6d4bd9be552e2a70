# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Choosing operators by the time of the whole captured solver: alone, an operator does not show how
it starts behind the one in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from phyai_ros.engine.layers.select import FastOperators
from phyai_ros.engine.runner import Runner
from phyai_ros.engine.types import Observation

NOTHING = Observation({}, np.zeros(0), "")
FEW = ("41", "50", "51")
"""Rows of the action models."""


def refine(
    adapter: Any,
    device: torch.device,
    observations: Any,
    noise: torch.Tensor,
    say: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    """-> every operator's time alone, as far as it was measured now."""
    runner = Runner(adapter, device)
    assert isinstance(runner.operators, FastOperators)
    table = runner.operators.table

    def solver_seconds() -> float:
        runner.release()
        runner.capture(NOTHING, (len(observations),))
        times = [runner.run(observations, noise)[0].stages["solver"] for _ in range(12)]
        return float(np.percentile(times[2:], 50))

    now = solver_seconds()
    say(f"solver {1e3 * now:.3f} ms with operators chosen alone")
    few = [
        k for k in table.times
        if any(f" T{rows} " in k for rows in FEW) or k.split("x")[0][-2:] in FEW
    ]  # fmt: skip
    for key in sorted(few, key=lambda k: -min(table.times[k].values())):
        alone = table.times[key]
        ranked = sorted(alone, key=alone.__getitem__)
        best_choice = table.choices[key]
        for choice in ranked[:5]:
            if choice == best_choice or alone[choice] > 1.3 * alone[ranked[0]]:
                continue
            table.choices[key] = choice
            then = solver_seconds()
            if then < now:
                now, best_choice = then, choice
        table.keep(key, best_choice)
        say(f"{key}: {best_choice} (alone {ranked[0]}), solver {1e3 * now:.3f} ms")
    table.save()
    return table.times
