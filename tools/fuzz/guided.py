# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of what reads bytes from others; stops at the first exception that is not
a refusal, and keeps its input.

    pip install -r requirements/fuzz.txt
    python tools/fuzz/guided.py yaml -max_total_time=60

Targets: compressed, image, mcap, weights, yaml. Further words are libFuzzer's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import atheris
import numpy as np
from safetensors.numpy import save_file

with atheris.instrument_imports(include=["phyai_ros", "rosbags", "yaml"]):
    from phyai_ros.bags.reader import Bag, BagError
    from phyai_ros.bags.writer import BagWriter
    from phyai_ros.engine.checkpoint import Checkpoint
    from phyai_ros.engine.types import PolicyError
    from phyai_ros.nodes import convert
    from phyai_ros.robots import RobotError
    from phyai_ros.robots import robot as robots

FOLDER = Path(tempfile.mkdtemp(prefix="phyai_fuzz_"))


def image(data: bytes) -> None:
    with suppress(ValueError):
        int(convert.image_from_raw(data).pixels.sum())


def compressed(data: bytes) -> None:
    with suppress(ValueError):
        int(convert.compressed_from_raw(data).pixels.sum())


def yaml(data: bytes) -> None:
    file = FOLDER / "robot.yaml"
    file.write_bytes(data)
    with suppress(RobotError):
        robots.load(str(file)).limits()


def mcap(data: bytes) -> None:
    file = FOLDER / "bag.mcap"
    file.write_bytes(b"\x89MCAP0\r\n" + data)
    with suppress(BagError), Bag(file) as bag:
        for message in bag.messages():
            with suppress(BagError):
                bag.decode(message)


def weights(data: bytes) -> None:
    (FOLDER / "config.json").write_text("{}")
    (FOLDER / "model.safetensors").write_bytes(data)
    with suppress(PolicyError):
        checkpoint = Checkpoint(FOLDER)
        for key in checkpoint.shapes:
            checkpoint.tensor(key)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (image, compressed, yaml, mcap, weights)
}


def seeds(name: str) -> Path:
    """A folder of whole inputs to begin with; a fuzzer hardly finds a magic number by itself."""
    root, corpus = Path(__file__).resolve().parents[2], FOLDER / "corpus"
    corpus.mkdir()
    if name == "yaml":
        for file in (root / "config" / "robots").glob("*.yaml"):
            (corpus / file.name).write_bytes(file.read_bytes())
    elif name == "mcap":
        writer = BagWriter(FOLDER / "seed")
        writer.add_topic("/instruction", "std_msgs/msg/String")
        writer.write("/instruction", 1, b"\0\1\0\0\3\0\0\0go\0")
        writer.close()
        found = next((FOLDER / "seed").glob("*.mcap"))
        (corpus / "seed").write_bytes(found.read_bytes()[8:])
    elif name == "weights":
        save_file({"w": np.zeros(2, np.float32)}, corpus / "seed")
    return corpus


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        raise SystemExit(f"expected a target, one of {', '.join(sorted(TARGETS))}")
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup([*sys.argv, str(seeds(target.__name__))], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
