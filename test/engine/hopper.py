# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the tests of the kernels for Hopper share: requests through a model that takes its stack of
layers by them, and launches that are early in a captured graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from phyai_ros.engine.kernels._cuda import CudaError, is_hopper
from phyai_ros.engine.kernels.fragments import from_fragments
from phyai_ros.engine.layers.clusters import CLUSTERS
from phyai_ros.engine.runner import Runner
from phyai_ros.engine.types import Observation

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NOTHING = Observation({}, np.zeros(0), "")
needs_hopper = pytest.mark.skipif(not is_hopper(DEVICE), reason="needs a Hopper GPU")


def runner(adapter, choice=CLUSTERS, device=DEVICE):
    """A runner that takes ``choice`` for the stack, and the names that it chose for."""
    made, asked = Runner(adapter, device), []

    def chosen(key, candidates):
        asked.append(key)
        return choice if choice in candidates else min(candidates)

    made.operators.chosen = chosen
    return made, asked


def answer(made, noise, guide=None):
    return torch.from_numpy(made.run([NOTHING] * len(noise), noise, guide)[0].normalised)


def check_requests_one_behind_the_other(adapter, others, runner=runner):
    """What the kernels fetch before they wait was written by the request they belong to: eager
    answers to ``others``, inputs of the adapter, are those without early launches."""
    noise = torch.randn(adapter.noise_shape(1))

    def answers(made):
        out = []
        for inputs in others:
            adapter.inputs = inputs
            out.append(answer(made, noise))
        return out

    first = answers(runner(adapter)[0])
    plain, _ = runner(adapter)
    plain.operators.dependent = False
    plain.model = adapter.model.fused(plain.operators)
    for one, other in zip(first, answers(plain), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first[0], first[1])


def check_a_refused_compiler(monkeypatch, caplog, adapter, module, kernel, runner=runner):
    """It is told once and costs nothing but the kernels: answers are those of the operators."""

    def refuse(*_, **__):
        raise CudaError("no such architecture")

    noise = torch.randn(adapter.noise_shape(1))
    expected = answer(runner(adapter, "library")[0], noise)
    monkeypatch.setattr(module, kernel, refuse)
    made, asked = runner(adapter)
    for _ in range(2):
        assert torch.equal(answer(made, noise), expected)
    assert not asked
    assert caplog.text.count("no such architecture") == 1


def check_early_attention(case, live, launch, rows):
    """``live``, what ``launch(out)`` reads, is written right in front of it, in a captured graph:
    the second and third launch start while the one in front ends, and every replay has the bits of
    the run that ``case.check`` held against its twin."""
    given = [t.clone() for t in live]
    outs = [torch.full_like(case.out, torch.nan) for _ in range(4)]

    def chain():
        for out in outs:
            for to, what in zip(live, given, strict=True):
                to.zero_()
                to.copy_(what)
            for _ in range(3):
                launch(out)

    chain()
    torch.cuda.synchronize()
    first = outs[0].clone()
    case.check(first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()
    for _ in range(200):
        for out in outs:
            out.fill_(torch.nan)
        graph.replay()
        for out in outs:
            found, wanted = (from_fragments(t, rows) for t in (out, first))
            assert torch.equal(found, wanted)
