# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The cell that the embedded checkpoints were trained in."""

import hashlib
import re

import pytest

from phyai_ros.sim import scene


def fingerprint(document: str) -> str:
    """Numbers count to six digits: a platform's last bit is not a changed cell."""
    rounded = re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda n: f"{float(n[0]) + 0.0:.6f}", document)
    return hashlib.sha256(rounded.replace("-0.000000", "0.000000").encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("belt", "known"), [(None, "cc7bb4dcc573933c"), ((0.6, -0.3, 0.3), "00e43234aa1fb93e")]
)
def test_the_cell_is_the_one_that_the_checkpoints_know(belt, known):
    """A colour or a light moved, and the policies' success with it: train them again, then say here
    what they know."""
    assert fingerprint(scene.document(belt)) == known
