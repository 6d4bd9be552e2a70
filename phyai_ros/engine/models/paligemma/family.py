# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What tells pi0 from pi0.5 outside the model, and how either is loaded from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from phyai_ros.engine import shapes
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.lerobot import Layout
from phyai_ros.engine.models.paligemma import keys
from phyai_ros.engine.models.paligemma.config import FlowConfig
from phyai_ros.engine.models.paligemma.flow import FlowPolicy
from phyai_ros.engine.models.paligemma.prompt import Prompt
from phyai_ros.engine.types import MisfitError, PolicyError
from phyai_ros.engine.weights import Rows


@dataclass(frozen=True)
class FlowFamily:
    """heads: the family's own layers, checkpoint name -> module name. legacy: older checkpoint
    names of those. ignore: regular expressions of keys that this family does not use.
    lerobot_prompt: from the checkpoint's preprocessor. quantiles: openpi's normalisation.
    discrete_state: whether openpi writes the state into the prompt. max_tokens: openpi's limit.
    """

    name: str
    model: Callable[[FlowConfig], FlowPolicy]
    adaptive: bool
    heads: Mapping[str, str]
    legacy: Mapping[str, str]
    ignore: tuple[str, ...]
    lerobot_prompt: Callable[[Layout], Prompt]
    quantiles: bool
    discrete_state: bool
    max_tokens: int

    def table(self, config: FlowConfig) -> dict[str, Rows]:
        """Checkpoint key -> rows of a parameter; see ``keys.key_table``."""
        return keys.key_table(config, self.heads, self.adaptive)

    def read(
        self, checkpoint: Checkpoint, config: FlowConfig, device: torch.device, dtype: torch.dtype
    ) -> FlowPolicy:
        """Build the model and fill it. Raises PolicyError naming keys that are missing or left."""
        with shapes.only():
            model = self.model(config)
        table = self.table(config)
        names = {key: self._canonical(key) for key in checkpoint.keys}
        there = set(names.values())
        output = next((key for key, name in names.items() if name == keys.TIED), None)
        tied = {} if output is None else {table[keys.EMBEDDING].name: output}
        missing = set(table) - there
        if tied:
            missing.discard(keys.EMBEDDING)
        self._check(checkpoint, missing, there)
        checkpoint.fill(
            model,
            device=device,
            dtype=lambda name: storage_dtype(name, dtype),
            rename=lambda key: table.get(names[key]),
            ignore=(*keys.UNUSED, *self.ignore),
            tied=tied,
        )
        for name, parameter in model.named_parameters():
            if parameter.is_meta:  # shapes alone were asked for
                continue
            if not torch.isfinite(torch.stack(torch.aminmax(parameter))).all():
                raise PolicyError(
                    f"{checkpoint.root}: weight {name!r} is not finite as {parameter.dtype}"
                )
        return model.eval()

    def _canonical(self, key: str) -> str:
        key = keys.canonical(key)
        head, _, rest = key.partition(".")
        return f"{self.legacy[head]}.{rest}" if head in self.legacy else key

    def _check(self, checkpoint: Checkpoint, missing: set[str], there: set[str]) -> None:
        if missing:
            some = ", ".join(sorted(missing)[:5])
            raise MisfitError(
                f"{checkpoint.root}: {len(missing)} weights of {self.name} are missing: {some}"
                f"{', ...' if len(missing) > 5 else ''}; the checkpoint has {len(there)}, "
                f"{', '.join(sorted(there)[:3])}, ..."
            )


def storage_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """The dtype that parameter ``name`` is kept in when the policy is asked for in ``dtype``.

    Norms, positions and the small layers around the expert stay in float32, as in the references.
    "bfloat16" names the language model's: it has activations beyond float16's range. The image
    tower (float32 in LeRobot's bfloat16) and the expert, whose weights decide most of the error,
    take float16: three more bits of mantissa at the same speed and size. A value out of its range
    becomes infinite, so that the runner refuses the chunk by name instead of passing it on.
    """
    if dtype == torch.float32:
        return dtype
    part = name.partition(".")[0]
    if "norm" in name or name == "image.position" or part not in _PRODUCTS:
        return torch.float32
    return dtype if part == "language" else torch.float16


_PRODUCTS = ("image", "projector", "language", "expert")
