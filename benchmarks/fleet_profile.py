"""Where the time of a fleet's step goes on a GPU: milliseconds of every kernel, by kind.

    python benchmarks/fleet_profile.py [--models 693] [--out FILE.csv]

Each method's step is recorded as in training, and replayed under torch's profiler.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from fleet_gpu import Steps, seconds, write
from torch.profiler import ProfilerActivity, profile

from synib.studies import PIDSimplex
from synib.training.device import device_name, matrix_products, release

METHODS = ("vanilla", "synib-random", "synib-learned")
KINDS = {  # part of a kernel's name → what it does; the first that fits
    "adam": "Adam",
    "gemm": "matrix products",
    "cutlass": "matrix products",
    "xmma": "matrix products",
    "nvjet": "matrix products",
    "splitk": "matrix products",
    "draw": "random draws",
    "permutation": "random draws",
    "fold": "random draws",
    "reduce": "sums",
    "index": "selection of rows",
    "gather": "selection of rows",
    "copy": "copies",
    "memcpy": "copies",
    "memset": "copies",
}


def kind(name: str) -> str:
    return next((words for part, words in KINDS.items() if part in name.lower()), "elementwise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=693)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--top", type=int, default=25, help="kernels to print for each method")
    parser.add_argument("--out", type=Path, default=Path("runs/fleet_profile.csv"))
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision: Any = "tf32" if device.type == "cuda" else "float32"
    where = {"device": device_name(str(device)), "torch": torch.__version__}
    experiment = PIDSimplex(methods=METHODS, width=options.width)
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        cell = next(c for c in experiment.cells() if c.method == method)
        many = Steps(experiment, cell, options.models, device)
        with matrix_products(precision, device):
            many.run()  # the second step of it is recorded
            each = seconds(many.run, device, 3) / 4
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
                seconds(many.run, device)
        kernels: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        for event in trace.events() or ():
            if event.device_type == torch.autograd.DeviceType.CUDA or device.type == "cpu":
                total, count = kernels[event.name]
                kernels[event.name] = total + event.self_device_time_total / 4e3, count + 1
        kinds: dict[str, float] = defaultdict(float)
        for name, (total, _) in kernels.items():
            kinds[kind(name)] += total
        print(f"{method}: {1e3 * each:.1f} ms a step; {dict(sorted(kinds.items(), key=lambda x: -x[1]))}", flush=True)
        for name, (total, count) in sorted(kernels.items(), key=lambda x: -x[1][0])[: options.top]:
            print(f"  {total:8.3f} ms {count / 4:6.1f} times  {kind(name):18} {name[:150]}", flush=True)
        rows += [
            {"method": method, "models": options.models, "kind": what, "ms_per_step": total,
             "whole_step_ms": 1e3 * each, **where}
            for what, total in sorted(kinds.items(), key=lambda x: -x[1])
        ]  # fmt: skip
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write(options.out, rows)
        del many, trace
        release(device)


if __name__ == "__main__":
    main()
