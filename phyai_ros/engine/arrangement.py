# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which image of a request is sent first, second and so on, remembered for requests of its kind.

An adapter says it by staging the images; for the next request of the kind they can be on their way
before anything else is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phyai_ros.engine.frames import frame_of
from phyai_ros.engine.staging import Stack
from phyai_ros.engine.types import Observation

Order = tuple[tuple[int, str], ...]
"""(request, camera key) of each image."""


def kind_of(observations: Sequence[Observation]) -> Any:
    """What staging images depends on: cameras, shapes, and whether they are in frames. None where
    that is not all, or something is no array: ``stage_images`` sees to those."""
    kind: list[Any] = []
    for observation in observations:
        if observation.history:
            return None
        for key, image in observation.images.items():
            if type(image) is not np.ndarray:
                return None
            kind.append((key, image.shape, image.dtype, frame_of(image) is None))
        kind.append(None)  # the next request's
    return tuple(kind)


def order_of(observations: Sequence[Observation], stacks: Sequence[Stack]) -> Order | None:
    """Where the images of the stacks come from; None where that cannot be told, for one array
    stands for several cameras or is none of the observations' own."""
    places = [(i, key) for i, o in enumerate(observations) for key in o.images]
    known = {id(observations[i].images[key]): (i, key) for i, key in places}
    order = [known.get(id(array)) for stack in stacks for array in stack.arrays]
    if len(known) < len(places) or None in order:
        return None
    return tuple(order)  # type: ignore[arg-type]
