# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Studies with the scripted expert and with the embedded checkpoint, loaded once."""

from __future__ import annotations

import dataclasses

import pytest

from phyai_ros.nodes import model_file
from phyai_ros.study.design import EXPERT, Setting
from phyai_ros.study.worker import Cell

SETTING = Setting(
    robot="ur10e",
    model="gr00t",
    checkpoint=EXPERT,
    embodiment=None,
    task="follow",
    speed=0.04,
    reversing=False,
    limit=10.0,
)


@pytest.fixture(scope="session")
def expert():
    cell = Cell(SETTING)
    yield cell
    cell.close()


@pytest.fixture(scope="session")
def policy():
    model, source = model_file.load("gr00t")
    checkpoint = model_file.checkpoint_path(model.checkpoint, source)
    cell = Cell(dataclasses.replace(SETTING, checkpoint=checkpoint))
    yield cell
    cell.close()
