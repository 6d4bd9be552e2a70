# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where the process of ``phyai-ros`` begins. Imports next to nothing, so that Ctrl-C is quiet from
here on: within an import it would end in a traceback of somebody else's module."""

import os
import signal
from types import FrameType


def main() -> int:
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, as of a job in the background
        from phyai_ros.tools import cli

        return cli.main()
    signal.signal(signal.SIGINT, _leave)
    from phyai_ros.tools import cli

    return cli.main(imported=lambda: signal.signal(signal.SIGINT, before))


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)
