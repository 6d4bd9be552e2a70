# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The cell that the embedded checkpoints were trained in."""

import hashlib

import pytest

from phyai_ros.sim import scene


@pytest.mark.parametrize(
    "belt, known", [(None, "2694a175c4b8f317"), ((0.6, -0.3, 0.3), "763fe4c34df40f1e")]
)
def test_the_cell_is_the_one_that_the_checkpoints_know(belt, known):
    """A colour or a light moved, and the policies' success with it: train them again, then say here
    what they know."""
    assert hashlib.sha256(scene.document(belt).encode()).hexdigest()[:16] == known
