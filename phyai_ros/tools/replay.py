# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros replay``: a bag through the policy and the handoff again, with fixed inputs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from phyai_ros.bags.reader import Bag
from phyai_ros.control import methods
from phyai_ros.engine.policy import DTYPES
from phyai_ros.replay import report
from phyai_ros.replay.compare import Comparison, Parity, compare, parity
from phyai_ros.replay.replay import REQUESTS, replay
from phyai_ros.replay.result import ResultError, ResultFile, load, save
from phyai_ros.replay.session import SELECTORS, Choices, open_session
from phyai_ros.tools import console, policy_options, writing
from phyai_ros.tools.option_types import at_least, given, given_path, not_negative

_EPILOG = """examples:
  phyai-ros replay bags/monday --checkpoint gr00t_ur10e_small --robot ur10e
  phyai-ros replay bags/monday --checkpoint gr00t_ur10e_small --robot ur10e --out golden.npz
  phyai-ros replay bags/monday --checkpoint my/checkpoint --robot ur10e --golden golden.npz

Reads the bag in this process, in log order, through the aligner, engine and handoff that run live.
Time is the bag's; noise comes from seed and request. The same bag and seed give the same file, byte
for byte, on the same machine whatever its load (and the same --threads).
A bag of a live run is answered request by request, and each chunk is compared with the live one:
--live makes a difference there count. Where a golden is given, observations and ticks must be
identical and actions within the precision's tolerance.
exit status: 0 all as it should be, 1 a difference, 2 wrong usage, a bag, checkpoint or golden that
cannot be used, or a file that was asked for and cannot be written
"""


def main(words: Sequence[str]) -> int:
    options = _parse(words)
    torch.set_num_threads(options.threads)
    try:
        golden = load(options.golden) if options.golden else None
        with Bag(options.bag) as bag:
            if bag.note:
                console.say("warning", f"{bag.path}: {bag.note}")
            result = replay(bag, open_session(_choices(options)), options.requests)
        comparison = compare(result, golden, options.tolerance) if golden else None
        live = parity(result)
    except (ValueError, OSError, ResultError) as error:
        console.fail(policy_options.said(error))
        return 2
    if options.json == "-":
        print(_json(report.as_json(result, comparison, live)))
    else:
        report.show(result, comparison, live, console.results(160))
    status = _verdict(options, result, comparison, live)
    whole = _write(options, result, comparison, live)
    return status or (0 if whole else 2)


def _verdict(
    options: argparse.Namespace,
    result: ResultFile,
    comparison: Comparison | None,
    live: Parity | None,
) -> int:
    if comparison is not None and not comparison.passed:
        console.fail(f"differs from {options.golden}: {comparison.first}")
        return 1
    if options.live and live is not None and live.identical < live.chunks:
        console.fail(f"differs from the live run: {live.first}")
        return 1
    if options.live and (live is None or not live.chunks):
        console.fail("--live: the bag holds no live chunk that could be replayed")
        return 1
    if not len(result["request_id"]):
        left = result.about["unanswered"]
        why = left[0]["text"] if left else "nothing asked for a chunk"
        for entry in result.about["refusals"][:1]:
            why += f"; of {entry['topic']} {entry['count']} were not used: {entry['first']}"
        console.fail(f"no request could be answered: {why}")
        return 1
    return 0


def _plot(
    result: ResultFile, comparison: Comparison | None, live: Parity | None, path: Path
) -> None:
    if comparison is not None:
        title = "replay against the golden"
        report.plot(result, comparison.error, comparison.command_error, title, path)
    elif live is not None:
        report.plot(result, live.error, live.command_error, "replay against the live run", path)


def _write(
    options: argparse.Namespace,
    result: ResultFile,
    comparison: Comparison | None,
    live: Parity | None,
) -> bool:
    """The result, a picture beside it, the report; False where what was asked for is not there."""
    asked = options.out is not None
    out = options.out or Path("runs/replay") / f"{options.bag.resolve().stem}.npz"
    picture = out.with_suffix(".png")
    there = all(
        writing.write(path, work, "--out FILE", asked=asked)
        for path, work in (
            (out, partial(save, result)),
            (picture, partial(_plot, result, comparison, live)),
        )
    )
    if there and options.json != "-":
        console.say("info", f"{out}, {picture}")
    if options.json in (None, "-"):
        return there or not asked
    text = _json(report.as_json(result, comparison, live)) + "\n"
    told = writing.write(Path(options.json), lambda path: path.write_text(text), "--json FILE")
    return told and (there or not asked)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True)


def _choices(options: argparse.Namespace) -> Choices:
    return Choices(
        checkpoint=policy_options.checkpoint(options),
        robot=options.robot,
        model=options.model or "",
        family=options.family,
        embodiment=options.embodiment,
        revision=options.revision,
        device=options.device,
        precision=options.precision,
        selector=options.selector,
        seed=options.seed,
        handoff=options.handoff,
        execution_horizon=options.execution_horizon,
        instruction=options.instruction,
        delay=options.delay,
    )


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phyai-ros replay",
        description="Answer a bag's observations again, and compare.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("bag", type=given_path, metavar="BAG", help="rosbag2 directory, .mcap or .db3 file")
    policy_options.add_checkpoint(parser)
    add("--robot", required=True, metavar="YAML", help="name in config/robots, or a file")
    add(
        "--model",
        type=given,
        metavar="YAML",
        help="the model's YAML; default: the one of its family",
    )
    add(
        "--golden",
        type=given_path,
        metavar="FILE",
        help="result of an earlier replay to compare with",
    )
    add(
        "--out",
        type=given_path,
        metavar="FILE",
        help="default: runs/replay/<bag>.npz; .png beside it",
    )
    add(
        "--json",
        type=given,
        metavar="FILE",
        help="the report for programs; - for the standard output",
    )
    add("--seed", type=int, default=0, help="of the noise, with the request's id (%(default)s)")
    add("--precision", choices=sorted(DTYPES), default="float32")
    add("--selector", choices=SELECTORS, default="fast", help="reference: nothing hoisted")
    add("--device", default="cpu", help="cpu, cuda, cuda:N (%(default)s)")
    add("--threads", type=at_least(1), default=1, help="of the CPU (%(default)s)")
    add("--requests", choices=REQUESTS, default="auto", help="the bag's, or the handoff's own")
    add("--live", action="store_true", help="a chunk that is not bit for bit the live one fails")
    add("--handoff", choices=methods.NAMES, default="replace")
    add(
        "--execution-horizon",
        type=at_least(1),
        default=0,
        metavar="N",
        help="rows; default: model's",
    )
    add("--instruction", default="", help="for requests that bring none")
    add(
        "--delay", type=not_negative, default=0.1, metavar="S", help="of an inference; own requests"
    )
    add("--tolerance", type=not_negative, metavar="X", help="share of a joint's span; by precision")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
