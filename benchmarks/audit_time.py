"""How long an audit takes, quick, usual and thorough, and what it says of data whose truth is known.

The audit is called as a library (what the command `synib audit` does between reading a file and writing a page), so that it
runs where the command's own dependencies are not installed; without cvxpy the decomposition is left out ("pid"). Kinds of data
are those of audit_sets.py. The first audit of a process also pays for starting the device, so a small one goes before and is
not counted. Seconds of each phase are in columns of their own: reading, folds, checks and the decomposition ("before"),
training, and so on, "reliance" with the sentences of the verdict. ``--profile`` writes the functions that took longest, with
everything that they called (this adds some time; on a GPU, waiting for it is in the function that waits). On a GPU a few
shards are trained at the same time; ``--shards 1 --shards 3`` compares one with three in one process.

    python benchmarks/audit_time.py [--plan quick] [--kind mixed] [--size 2000x16] [--seeds 1] [--device auto]
                                    [--shards 3] [--out FILE.csv] [--profile FILE.txt]
"""

import argparse
import cProfile
import csv
import importlib
import importlib.util
import itertools
import pstats
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from audit_sets import TRUTH, made

from synib.own import sharing
from synib.own.audit import WORK, audit
from synib.own.table import read
from synib.training.device import choose_device, device_name

HAS_PID = importlib.util.find_spec("cvxpy") is not None
PLANS: dict[str, dict[str, Any]] = {  # of synib audit --quick, without an option, --thorough
    "quick": {"k": 3, "seeds": 1, "budget": 2, "judge": False, "tries": 4},
    "usual": {"k": 5, "seeds": 1, "budget": 6},
    "thorough": {"k": 5, "seeds": 3, "budget": 18, "tries": 12},
}


class Phases:
    """Seconds of each phase of an audit, from its reports of progress."""

    def __init__(self, start: float) -> None:
        self.phase, self.since = "before", start
        self.seconds = dict.fromkeys(("before", *WORK), 0.0)

    def __call__(self, done: float, total: float, what: str) -> None:
        if what != self.phase:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            now = time.perf_counter()
            self.seconds[self.phase] += now - self.since
            self.phase, self.since = what, now


def timed(kind: str, rows: int, width: int, plan: str, device: str, seed: int = 0) -> dict[str, Any]:
    """Seconds from the file to the verdict, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        np.savez(file, **made(kind, rows, width, seed))  # type: ignore[arg-type]
        start = time.perf_counter()
        phases = Phases(start)
        found = audit(read(file, target="label"), **PLANS[plan], device=device, on_progress=phases)
        seconds = time.perf_counter() - start
    told = found.verdict.plain()
    return {
        "plan": plan, "kind": kind, "truth": "synergy" if TRUTH[kind] else "none", "rows": rows, "width": width, "seed": seed,
        "seconds": round(seconds, 1), **{f"s_{phase}": round(s, 1) for phase, s in phases.seconds.items()},
        "synergy": told["synergy"],
        **{f"gain_{end}": told["gain"][end] for end in ("mean", "low", "high")},
        "device": device_name(choose_device(device)), "threads": torch.get_num_threads(),
        "shards": sharing.threads_on(choose_device(device)), "torch": torch.__version__,
        "pid": HAS_PID,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", action="append", choices=PLANS, help="all by default")
    parser.add_argument("--kind", action="append", choices=TRUTH, help="synergy, mixed and both by default")
    parser.add_argument("--size", action="append", help="ROWSxNUMBERS of each modality; 2000x16 by default")
    parser.add_argument("--seeds", type=int, default=1, help="data sets of each kind and size")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shards", action="append", type=int, help="shards that a GPU trains at the same time")
    parser.add_argument("--out", help="also write the table there")
    parser.add_argument("--profile", help="write the functions that took longest there")
    options = parser.parse_args()
    sizes = [tuple(map(int, size.split("x"))) for size in options.size or ["2000x16"]]
    if not HAS_PID:
        module: Any = importlib.import_module("synib.own.audit")
        module._decompose = lambda *_: {}
    audit_rows: list[dict[str, Any]] = []
    timed("both", 200, 8, "quick", options.device)
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    for plan in options.plan or PLANS:
        for rows, width in sizes:
            kinds, shards = options.kind or ("synergy", "mixed", "both"), options.shards or [sharing.THREADS]
            for kind, seed, count in itertools.product(kinds, range(options.seeds), shards):
                sharing.THREADS = count
                row = timed(kind, rows, width, plan, options.device, seed)
                audit_rows.append(row)
                print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
                if options.out:
                    with open(options.out, "w", newline="") as file:
                        writer = csv.DictWriter(file, list(row), lineterminator="\n")
                        writer.writeheader()
                        writer.writerows(audit_rows)
    if options.profile:
        profile.disable()
        with open(options.profile, "w") as file:
            pstats.Stats(profile, stream=file).sort_stats("cumulative").print_stats("synib|torch._C|built-in", 120)


if __name__ == "__main__":
    main()
