"""What keyed draws in one kernel, compiled steps and a recorded loop save, on one GPU, in one run of a few minutes.

1. ``draws.csv``: each draw as a chain of tensor operations and as one kernel, checked for equal bits;
2. ``one_model.csv``: a step of one model in an ordinary loop, recorded and not, vanilla and with random masks;
3. ``fleet.csv``: a step of many models with chains, with kernels, and compiled, recorded as a CUDA graph; whether the
   parameters are equal, and the share of the card's copy bandwidth, on the bytes that no implementation could avoid;
   what compiling takes, and loading what was compiled.

    python benchmarks/draws_gpu.py [--seconds 240] [--out FOLDER]

A part that fails prints its error, and the others go on. It runs on a CPU too, at a small ``--width`` and few ``--models``.
"""

import argparse
import contextlib
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fleet_gpu import ADAM, Steps, ceilings, seconds, write

import synib
from synib.keys import chain, ops
from synib.keys import device as kernels
from synib.objective import Objective
from synib.studies import PIDSimplex
from synib.tokens import values
from synib.training.compiled import CompiledGradient
from synib.training.device import device_name, matrix_products, release

METHODS = ("vanilla", "synib-random", "synib-learned")


class Report:
    """Rows of one table, printed and written as they come."""

    def __init__(self, path: Path, device: torch.device, begin: float) -> None:
        self.path, self.begin = path, begin
        self.where = {"device": device_name(str(device)), "torch": torch.__version__}
        self.rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        self.rows.append({**row, **self.where})
        write(self.path, self.rows)
        shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
        print(f"[{time.monotonic() - self.begin:5.0f} s]", *(f"{k}={v}" for k, v in shown.items()), flush=True)


@contextlib.contextmanager
def going_on(what: str) -> Iterator[None]:
    """Context that prints an error and goes on."""
    try:
        yield
    except Exception:
        print(f"FAILED: {what}", flush=True)
        traceback.print_exc()


@contextlib.contextmanager
def chains(device: torch.device) -> Iterator[None]:
    """Context in which draws on a GPU are chains of tensor operations, as they were before."""
    before = dict(kernels._usable)
    index = torch.cuda.current_device() if device.type == "cuda" else None
    kernels._usable[index] = kernels._usable[None] = (False, False)
    try:
        yield
    finally:
        kernels._usable.clear()
        kernels._usable.update(before)


def draws(report: Report, device: torch.device, models: int, rows: int, width: int) -> None:
    keys = torch.stack([synib.keys.key(seed) for seed in range(models)]).to(device)
    ops.uniform(keys[:2], 8)
    state = kernels._usable.get(device.index if device.index is not None else 0, kernels._usable.get(None))
    print(f"kernels usable, with logarithm and cosine equal to torch's: {state}", flush=True)
    cases: dict[str, tuple[Callable[..., Any], int]] = {
        "uniform": (lambda at, key, n: at.uniform(key, n), rows * width),
        "bernoulli": (lambda at, key, n: at.bernoulli(key, 0.4, n), rows * width),
        "normal": (lambda at, key, n: at.normal(key, n), rows * width),
        "permutation": (lambda at, key, n: at.permutation(key, n), rows),
        "fold": (lambda at, key, n: at.fold(key, [synib.keys._number("mask"), 7]), 1),
    }
    for keys_used in (keys, keys[:1]):
        for name, (draw, n) in cases.items():
            with going_on(f"draw {name}"):
                ours, theirs = draw(ops, keys_used, n), draw(chain, keys_used, n)
                equal = torch.equal(ours, theirs)
                moved = ours.numel() * ours.element_size()
                del ours, theirs
                before, after = (seconds(partial(draw, at, keys_used, n), device, 5) for at in (chain, ops))
                report.add(draw=name, keys=len(keys_used), numbers_each=n, equal=equal, chain_ms=1e3 * before,
                           kernel_ms=1e3 * after, times_faster=before / after,
                           kernel_tbytes_written=moved / after / 1e12)  # fmt: skip
        release(device)


def one_model(report: Report, experiment: PIDSimplex, device: torch.device, times: int) -> None:
    cell = experiment.cells()[0]
    data = experiment.data(cell)
    batch: int = cell.settings["batch_size"]
    x = {name: values(v)[:batch].to(device) for name, v in data.train.modalities.items()}
    y = data.train.target[:batch].to(device)
    kinds: dict[str, Callable[[], Objective]] = {
        "vanilla": lambda: synib.Vanilla(family=synib.Bernoulli()),
        "synib-random": lambda: synib.SynIB(
            synib.RandomMask(0.4), synib.StandardNoise(), family=synib.Bernoulli(), draws=1
        ),
        "synib-marginal": lambda: synib.SynIB(draws=8, family=synib.Bernoulli()),
    }
    found: dict[tuple[str, bool], float] = {}
    for name, objective in kinds.items():
        for recorded in (False, True):
            with going_on(f"one model, {name}"):
                torch.manual_seed(0)
                model = experiment.model(cell, data).to(device)
                adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
                step = synib.recorded(objective(), model, adam)
                if not recorded:
                    step._plain("asked")
                for _ in range(5):
                    step(x, y)
                each = found[name, recorded] = seconds(partial(step, x, y), device, times)
                plain, vanilla = found.get((name, False), each), found.get(("vanilla", recorded), each)
                report.add(method=name, recorded=recorded, ms_per_step=1e3 * each, times_faster=plain / each,
                           vanilla_steps=each / vanilla, reason=step.reason)  # fmt: skip


def fleet_steps(
    report: Report, experiment: PIDSimplex, device: torch.device, models: int, end: float, compile_too: bool
) -> None:
    precision: Any = "tf32" if device.type == "cuda" else "float32"
    _, best_bytes = ceilings(device, precision, 8192 if device.type == "cuda" else 256)
    first = {method: next(c for c in experiment.cells() if c.method == method) for method in METHODS}
    reference: dict[str, list[torch.Tensor]] = {}

    def measure(method: str, how: str) -> None:
        release(device)
        many = Steps(experiment, first[method], models, device)
        if how.startswith("compiled"):
            many.fleet.compiled = CompiledGradient(10**6, device)
            many.fleet.compiled.mode = "always"
        with matrix_products(precision, device):
            start = time.monotonic()
            many.run()  # the second step of it is recorded
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            begun = time.monotonic() - start
            some = [p[:3].cpu().clone() for p in many.fleet.parameters.values()]
            each = min(seconds(many.run, device, 2) / 4 for _ in range(3))
        expected = reference.setdefault(method, some)
        pairs = list(zip(some, expected, strict=True))
        moved = many.parameters() * (3 * 4 + ADAM) * models / each
        used = any(ready is not None for ready in many.fleet.compiled.ready.values())
        report.add(method=method, how=how, models=models, ms_per_step=1e3 * each, tbytes=moved / 1e12,
                   of_copy=moved / best_bytes, copy_tbytes=best_bytes / 1e12, first_steps_seconds=begun,
                   compiled=used, recorded=many.fleet.recorded is not None and many.fleet.recorded.works,
                   equal=all(torch.equal(a, b) for a, b in pairs),
                   largest_difference=max(float((a - b).abs().max()) for a, b in pairs))  # fmt: skip

    for method in METHODS:
        with going_on(f"fleet, {method}, chains"), chains(device):
            measure(method, "chains")
        with going_on(f"fleet, {method}, kernels"):
            measure(method, "kernels")
    if not compile_too:
        return
    needed = 45.0
    for method in METHODS:
        for how in ("compiled", "compiled, loaded"):
            if time.monotonic() + (needed if how == "compiled" else 15.0) > end:
                print(f"no time left for {method}, {how}", flush=True)
                continue
            start = time.monotonic()
            with going_on(f"fleet, {method}, {how}"):
                measure(method, how)
            if how == "compiled":
                needed = 1.5 * (time.monotonic() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=240, help="after which nothing new is begun")
    parser.add_argument("--models", type=int, default=693)
    parser.add_argument("--width", type=int, default=1024, help="of the network")
    parser.add_argument("--times", type=int, default=50, help="steps of one model that are timed")
    parser.add_argument("--without-compile", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/draws_gpu"))
    options = parser.parse_args()
    begin = time.monotonic()
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    print(f"{device_name(str(device))}, torch {torch.__version__}", flush=True)
    experiment = PIDSimplex(methods=METHODS, width=options.width)
    with tempfile.TemporaryDirectory() as cache, going_on("everything"):
        os.environ["SYNIB_CACHE"] = cache
        with going_on("draws"):
            draws(Report(out / "draws.csv", device, begin), device, options.models, 128, options.width)
        with going_on("one model"), matrix_products("tf32" if device.type == "cuda" else "float32", device):
            one_model(Report(out / "one_model.csv", device, begin), experiment, device, options.times)
        release(device)
        report = Report(out / "fleet.csv", device, begin)
        fleet_steps(report, experiment, device, options.models, begin + options.seconds, not options.without_compile)
    print(f"done after {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
