# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A loaded policy, and bags made by script."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bags"))
CHECKPOINT = ROOT / "phyai_ros" / "checkpoints" / "gr00t_ur10e_small"


@pytest.fixture(scope="session")
def choices():
    from phyai_ros.replay.session import Choices

    torch.set_num_threads(1)
    return Choices(str(CHECKPOINT), "ur10e")


@pytest.fixture(scope="session")
def session(choices):
    from phyai_ros.replay.session import open_session

    return open_session(choices)


@pytest.fixture(scope="session")
def bags(tmp_path_factory):
    """Folder with the adversarial bag, and ``plain``: its twin without odd encodings."""
    import make_adversarial

    folder = tmp_path_factory.mktemp("bags")
    make_adversarial.make(folder / "adversarial")
    make_adversarial.make(folder / "plain", plain=True, storage="sqlite3")
    return folder


@pytest.fixture(scope="session")
def replayed(session, bags):
    """The adversarial bag's result."""
    from phyai_ros.bags.reader import Bag
    from phyai_ros.replay.replay import replay

    with Bag(bags / "adversarial") as bag:
        return replay(bag, session)
