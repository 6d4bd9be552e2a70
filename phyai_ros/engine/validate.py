# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Is this observation one that the policy can use? Checked once, before any family's own code."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from phyai_ros.engine.types import Guidance, Observation, PolicyError, PolicySpec


def check_observation(observation: Observation, spec: PolicySpec) -> None:
    """Cameras (present, known, uint8 [H, W, 3]), state (length, finite), instruction (text).
    Raises PolicyError naming camera or state column, expected and found."""
    known = (*spec.cameras, *spec.optional_cameras)
    for key in spec.cameras:
        if key not in observation.images and key not in spec.optional_cameras:
            raise PolicyError(
                f"camera {key!r} missing; expected {', '.join(known)}; "
                f"found {', '.join(observation.images) or 'none'}"
            )
    for key, image in observation.images.items():
        if key not in known:
            raise PolicyError(f"camera {key!r} is not one of the policy's: {', '.join(known)}")
        _check_image(key, np.asarray(image))
    state = np.asarray(observation.state)
    if state.shape != (spec.state_dim,):
        raise PolicyError(
            f"state: expected {spec.state_dim} values ({', '.join(spec.state_names)}), "
            f"found shape {state.shape}"
        )
    if state.dtype.kind not in "fiu":
        raise PolicyError(f"state: expected numbers, found {state.dtype} {state.tolist()!r:.100}")
    bad = ~np.isfinite(state)
    if bad.any():
        names = [name for name, b in zip(spec.state_names, bad, strict=True) if b]
        raise PolicyError(f"state: not finite: {', '.join(names)}")
    if not isinstance(observation.instruction, str):
        raise PolicyError(f"instruction: expected text, found {type(observation.instruction)}")
    try:
        observation.instruction.encode()
    except UnicodeEncodeError as error:  # half of a pair, of which tokenizers make nothing
        raise PolicyError(f"instruction: not text that UTF-8 can hold: {error.reason}") from None


def _check_image(key: str, image: np.ndarray) -> None:
    if image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size:
        return
    if np.issubdtype(image.dtype, np.floating) and not np.isfinite(image).all():
        raise PolicyError(f"camera {key!r}: pixels are not finite")
    raise PolicyError(
        f"camera {key!r}: expected uint8 [height, width, 3] RGB, "
        f"found {image.dtype} {list(image.shape)}"
    )


def check_guidance(guidance: Guidance, spec: PolicySpec) -> None:
    """Method, left-over (finite numbers [rows, action_dim]), columns (bool [action_dim]), and whole
    numbers in the order 0 <= committed <= rows <= horizon, 1 <= execution_horizon <= horizon.
    Raises PolicyError naming the field, expected and found."""
    if guidance.method not in spec.guidance_methods:
        raise PolicyError(
            f"guidance {guidance.method!r} is not one that {spec.family} can do: "
            f"{', '.join(spec.guidance_methods) or 'none'}"
        )
    leftover = np.asarray(guidance.leftover)
    if leftover.ndim != 2 or leftover.shape[1] != spec.action_dim:
        raise PolicyError(
            f"guidance.leftover: expected [rows, {spec.action_dim}], found {list(leftover.shape)}"
        )
    if leftover.dtype.kind not in "fiu":
        raise PolicyError(f"guidance.leftover: expected numbers, found {leftover.dtype}")
    if not np.isfinite(leftover).all():
        raise PolicyError("guidance.leftover: not finite")
    if guidance.columns is not None and np.shape(guidance.columns) != (spec.action_dim,):
        raise PolicyError(
            f"guidance.columns: expected {spec.action_dim} values, "
            f"found shape {list(np.shape(guidance.columns))}"
        )
    if guidance.columns is not None and np.asarray(guidance.columns).dtype != bool:
        found = np.asarray(guidance.columns).dtype
        raise PolicyError(f"guidance.columns: expected True or False, found {found}")
    for name in ("committed", "execution_horizon"):
        value = getattr(guidance, name)
        # Of half a row or half a chunk nobody said what it means; a bool counts nothing.
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise PolicyError(f"guidance.{name}: expected a whole number, found {value!r:.100}")
    rows = len(leftover)
    if not 0 <= guidance.committed <= rows or rows > spec.horizon:
        raise PolicyError(
            f"guidance: expected 0 <= committed <= left-over rows <= horizon {spec.horizon}, "
            f"found committed {guidance.committed}, rows {rows}"
        )
    if not 0 < guidance.execution_horizon <= spec.horizon:
        raise PolicyError(
            f"guidance.execution_horizon: expected 1 to {spec.horizon}, "
            f"found {guidance.execution_horizon}"
        )
