# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Loading a sharded checkpoint: seconds a GB, and the host memory it takes beyond the model.

Writes a synthetic pi05 checkpoint (published widths, fewer layers) to a temporary folder and loads
it in a fresh process, first with the page cache emptied of its files, then from the cache. Adds a
row to benchmarks/results/load.jsonl.

Host memory is the process's anonymous memory, watched from outside: mapped pages of the weight
files also count as resident, but are the kernel's to drop.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import record
import synthetic_checkpoint

GIGA = 1e9
ROOM = 1 << 30
"""Bytes that loading may take beyond the model and its largest shard."""
SAMPLE_S = 0.001


@dataclass(frozen=True)
class Load:
    """seconds: of load_policy. file_bytes: of the weight files. largest: of them. model_bytes: of
    the loaded model on the host. peak_bytes: the most anonymous memory beyond what the process had
    before, the model included. parameters: of the model. first_s: of its first answer, 0 where none
    was asked for; largest_action: of that answer, in robot units. warm_s: of the warm-up, which
    captures ``buckets``, 0 where none was asked for; device_bytes: in use on the GPU after it."""

    seconds: float
    file_bytes: int
    largest: int
    model_bytes: int
    peak_bytes: int
    parameters: int
    first_s: float = 0.0
    largest_action: float = 0.0
    warm_s: float = 0.0
    buckets: int = 0
    device_bytes: int = 0

    @property
    def extra_bytes(self) -> int:
        return self.peak_bytes - self.model_bytes


def measure(
    folder: Path,
    device: str = "cpu",
    dtype: str = "bfloat16",
    *,
    infer: bool = False,
    warm: bool = False,
) -> Load:
    """Load ``folder`` in a fresh process, which then is warmed up if ``warm`` and answers one
    request if ``infer``. Raises RuntimeError with what that process said."""
    words = [sys.executable, __file__, "--child", str(folder), "--device", device, "--dtype", dtype]
    words += ["--infer"] if infer else []
    words += ["--warm"] if warm else []
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()  # it has imported everything
        before = peak = anonymous(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        os.set_blocking(child.stdout.fileno(), False)
        said = ""
        while not said and child.poll() is None:
            peak = max(peak, anonymous(child.pid))
            said = child.stdout.readline()
            time.sleep(SAMPLE_S)
        os.set_blocking(child.stdout.fileno(), True)
        said = child.stdout.readline()  # the line before said that it has loaded
        errors = child.communicate()[1]
    if not said:
        raise RuntimeError(f"loading {folder} failed:\n{errors}")
    found = json.loads(said)
    sizes = [path.stat().st_size for path in folder.glob("model*.safetensors")]
    found["model_bytes"] = found["model_bytes"] if device == "cpu" else 0
    return Load(file_bytes=sum(sizes), largest=max(sizes), peak_bytes=peak - before, **found)


def anonymous(pid: int) -> int:
    """Bytes of a process's resident memory that no file stands behind; 0 once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def child(folder: str, device: str, dtype: str, infer: bool, warm: bool) -> None:
    """Says when it is ready, waits for a line, loads, says so, and then what it took."""
    import numpy as np
    import torch

    import phyai_ros.engine.models.pi05.adapter  # noqa: F401  its import is not loading either
    from phyai_ros.engine.policy import load_policy
    from phyai_ros.engine.types import Observation

    torch.set_num_threads(1)
    torch.zeros(1, device=device)  # the CUDA context is not the checkpoint's
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    policy = load_policy(folder, device=device, dtype=dtype)
    if device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    print("loaded", flush=True)
    weights = list(policy.adapter.model.parameters())
    found = {
        "seconds": seconds,
        "model_bytes": sum(p.nbytes for p in weights),
        "parameters": sum(p.numel() for p in weights),
    }
    if warm:
        started = time.perf_counter()
        policy.warm_up(dict.fromkeys(policy.spec.cameras, (480, 640)))
        found["warm_s"] = time.perf_counter() - started
        if device != "cpu":
            free, whole = torch.cuda.mem_get_info()
            found["device_bytes"] = whole - free
            found["buckets"] = policy.runner.buckets
    found |= {"first_s": 0.0, "largest_action": 0.0}
    if infer:
        spec, rng = policy.spec, np.random.default_rng(0)
        images = {k: rng.integers(0, 255, (480, 640, 3), dtype=np.uint8) for k in spec.cameras}
        request = Observation(images, rng.normal(0, 0.1, spec.state_dim), "pick up the cup")
        started = time.perf_counter()
        chunk = policy.infer(request)  # refuses an answer that is not finite
        found["first_s"] = time.perf_counter() - started
        found["largest_action"] = float(np.abs(chunk.actions).max())
    print(json.dumps(found), flush=True)


def forget(folder: Path) -> None:
    """Ask the kernel to drop the folder's files from the page cache."""
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4, help="of each part; published: 18, 18, 27")
    parser.add_argument("--vocabulary", type=int, default=65536, help="published: 257152")
    parser.add_argument("--shard-mb", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--infer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.device, options.dtype, options.infer, options.warm)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthetic_checkpoint.make(
            "pi05",
            folder,
            layers=options.layers,
            vocabulary=options.vocabulary,
            shard=options.shard_mb * synthetic_checkpoint.MEBI,
        )
        forget(folder)
        cold = measure(folder, options.device, options.dtype)
        warm = measure(folder, options.device, options.dtype)
    beyond = max(cold.extra_bytes, warm.extra_bytes)
    most = cold.largest + ROOM
    entry = record.row(
        "load",
        {
            "what": f"pi05 of {options.layers} layers, bfloat16 file -> {options.dtype} model on "
            f"{options.device}",
            "file_gb": round(cold.file_bytes / GIGA, 2),
            "largest_shard_gb": round(cold.largest / GIGA, 2),
            "s_per_gb_from_disk": round(cold.seconds / (cold.file_bytes / GIGA), 2),
            "s_per_gb_from_page_cache": round(warm.seconds / (warm.file_bytes / GIGA), 2),
            "model_on_host_gb": round(cold.model_bytes / GIGA, 2),
            "host_beyond_model_gb": round(beyond / GIGA, 2),
            "wanted": {"host_beyond_model_gb_at_most": round(most / GIGA, 2)},
            "passed": beyond <= most,
        },
    )
    record.save("load.jsonl", entry)
    print(json.dumps(entry))
    return 0 if entry["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
