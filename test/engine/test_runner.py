# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a runner makes once a load is made on its own device, whatever the current one is: kernels
are loaded where they are made. On two GPUs: test_pi_experts_cuda.py."""

from contextlib import contextmanager

import torch

from phyai_ros.engine import embedded, runner
from phyai_ros.engine.layers.select import FastOperators
from phyai_ros.engine.policy import load_policy


def test_everything_of_a_load_is_made_on_the_runners_device(monkeypatch):
    adapter = load_policy(embedded.find("pi05_ur10e_small")).adapter
    made, here = [], []

    @contextmanager
    def on_its_device():
        here.append(True)
        yield
        here.pop()

    class Fast(FastOperators):
        def __init__(self):
            """No operator is asked for."""

    def watched(name, work):
        def call(*args):
            made.append((name, bool(here)))
            return work(*args)

        return call

    monkeypatch.setattr(runner, "_current", lambda device: on_its_device)
    monkeypatch.setattr(runner.Runner, "_operators", watched("operators", lambda *_: Fast()))
    monkeypatch.setattr(runner, "Inlet", watched("inlet", lambda *_: None))
    model = adapter.model
    monkeypatch.setattr(model, "fused", watched("fused", lambda _: model), raising=False)
    monkeypatch.setattr(model, "constants", watched("constants", model.constants))
    runner.Runner(adapter, torch.device("cpu"))
    assert made == [(name, True) for name in ("operators", "inlet", "fused", "constants")]
