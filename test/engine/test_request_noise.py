# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Noise is a function of (seed, request id): order and history do not matter."""

import numpy as np
import pytest

from phyai_ros.engine.request_noise import request_noise

SHAPE = (1, 16, 7)


def test_the_same_request_gets_the_same_noise_whatever_was_drawn_before():
    first = request_noise(3, 5, SHAPE)
    for request in range(10):
        request_noise(3, request, (4, 4))
    np.testing.assert_array_equal(request_noise(3, 5, SHAPE), first)
    assert first.dtype == np.float32
    assert first.shape == SHAPE


@pytest.mark.parametrize("other", [(3, 6), (4, 5), (5, 3), (3, 5 + 2**40)])
def test_another_seed_or_request_gets_other_noise(other):
    assert not np.isclose(request_noise(*other, SHAPE), request_noise(3, 5, SHAPE)).any()


def test_it_is_standard_normal():
    many = np.concatenate([request_noise(0, i, (100, 10)).ravel() for i in range(100)])
    assert abs(many.mean()) < 0.02
    assert abs(many.std() - 1.0) < 0.02
    neighbours = [request_noise(0, i, (1000,)) for i in (1, 2)]
    assert abs(np.corrcoef(neighbours)[0, 1]) < 0.15
