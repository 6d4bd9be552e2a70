# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Poses as xyz + the first two rows of the rotation matrix (6-D), and their composition."""

from __future__ import annotations

import numpy as np


def matrices(pose: np.ndarray) -> np.ndarray:
    """[..., 9] -> float64 homogeneous [..., 4, 4]; the rows made orthonormal, the third their
    cross product."""
    wide = np.asarray(pose, np.float64)
    first = wide[..., 3:6] / np.linalg.norm(wide[..., 3:6], axis=-1, keepdims=True)
    second = wide[..., 6:9]
    second = second - (first * second).sum(-1, keepdims=True) * first
    second = second / np.linalg.norm(second, axis=-1, keepdims=True)
    out = np.zeros((*wide.shape[:-1], 4, 4))
    out[..., 0, :3], out[..., 1, :3], out[..., 2, :3] = first, second, np.cross(first, second)
    out[..., :3, 3] = wide[..., :3]
    out[..., 3, 3] = 1.0
    return out


def poses(matrix: np.ndarray) -> np.ndarray:
    """float64 [..., 4, 4] -> [..., 9]."""
    rows = matrix[..., :2, :3].reshape(*matrix.shape[:-2], 6)
    return np.concatenate([matrix[..., :3, 3], rows], axis=-1)


def compose(relative: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The pose ``relative`` [..., 9] seen from ``reference`` [9], in reference's own frame."""
    return poses(matrices(reference) @ matrices(relative))


def difference(absolute: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The inverse of ``compose``: ``absolute`` [..., 9] relative to ``reference`` [9]."""
    return poses(np.linalg.inv(matrices(reference)) @ matrices(absolute))
