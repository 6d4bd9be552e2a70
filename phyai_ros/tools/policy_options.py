# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The options with which commands name a checkpoint."""

from __future__ import annotations

import argparse
import re

from phyai_ros.engine.types import EmbodimentError, FamilyError
from phyai_ros.nodes.model_file import checkpoint_path
from phyai_ros.tools.option_types import given


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """--checkpoint and what may be said about it."""
    parser.add_argument(
        "--checkpoint",
        required=True,
        metavar="DIR",
        help="directory, name of an embedded checkpoint, or hub id (owner/name)",
    )
    parser.add_argument(
        "--family", type=given, help="model family; default: as the checkpoint says"
    )
    parser.add_argument(
        "--embodiment", type=given, help="embodiment tag, where the checkpoint has several"
    )
    parser.add_argument("--revision", type=given, help="revision of a hub id")


def checkpoint(options: argparse.Namespace) -> str:
    """What the engine takes for --checkpoint."""
    return checkpoint_path(str(options.checkpoint), "")


def said(error: Exception) -> str:
    """An error's text, with the option here in place of load_policy's argument."""
    if isinstance(error, EmbodimentError | FamilyError):
        return re.sub(r"\bname one with (family|embodiment)=", r"name one with --\1", str(error))
    return str(error)
