"""The PID-simplex figure by the fleet on one GPU: how fast, against one model at a time and against the card itself.

In one run:

1. the card's ceilings, measured: matrix products of the precision in use, and copying memory;
2. a training step of each method with 1, 8, 64, 231 and 693 models at once, recorded as a CUDA graph (as the fleet trains) and
   launched kernel by kernel: model-steps per second, the floating-point operations that were needed for them (counted by
   torch), and the bytes that no implementation could avoid (weights read forwards and backwards, gradient written and read,
   Adam's state read and written);
3. with ``--whole``, the four main columns of the figure from the beginning to ``results.csv``, and one model of each method
   alone, all its epochs, recorded and launched, multiplied up to as many models;
4. with ``--compile``, whether compiling the step pays: what it costs, and what a step takes then (launched, both).

    python benchmarks/fleet_gpu.py [--precision tf32] [--whole] [--compile] [--out FOLDER]

It runs on a CPU too, at a small ``--width`` and few ``--models``, so that it can be tried before it is sent to a GPU.
"""

import argparse
import csv
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from synib.data import Split
from synib.studies import PIDSimplex
from synib.studies.pid_xor.learned_masks import VARIANTS
from synib.tokens import values
from synib.training import fleet
from synib.training.cells import Cell
from synib.training.device import Precision, device_name, matrix_products, release
from synib.training.folder import Folder
from synib.training.stacked import StackedModels
from synib.training.sweep import sweep

MAIN = ("vanilla", "synib-oracle", "synib-random", "synib-learned")
LOOP = "synib-learned, 20 steps"
ADAM = 7 * 4  # bytes for each parameter: weight, gradient and two moments read, weight and moments written


def seconds(run: Callable[[], object], device: torch.device, times: int = 1) -> float:
    """How long a call takes, the device's work included."""
    _wait(device)
    start = time.perf_counter()
    for _ in range(times):
        run()
    _wait(device)
    return (time.perf_counter() - start) / times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def lifetime() -> float:
    """Seconds since this program was started, before it imported anything (Linux tells)."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def ceilings(device: torch.device, precision: Precision, size: int) -> tuple[float, float]:
    """Floating-point operations and bytes per second that this card reaches at its best."""
    a, b = (torch.randn(size, size, device=device) for _ in range(2))
    with matrix_products(precision, device):
        a @ b
        flops = 2 * size**3 / seconds(lambda: a @ b, device, 5)
    x = torch.randn(16 * size * size, device=device)
    y = torch.empty_like(x)
    y.copy_(x)
    moved = 2 * x.numel() * 4 / seconds(lambda: y.copy_(x), device, 5)
    return flops, moved


class Flops(TorchDispatchMode):
    """Counts floating-point operations of matrix products (torch's own counter does not stand nested derivatives)."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        self.total += count(*args, **(kwargs or {}), out_val=out) if count else 0
        return out


class Steps:
    """A fleet of equal cells and a few batches to train it on."""

    def __init__(
        self, experiment: PIDSimplex, cell: Cell, models: int, device: torch.device, launched: bool = False
    ) -> None:
        data = experiment.data(cell)
        self.fleet = StackedModels(experiment, [cell] * models, [data] * models, device)
        if launched:
            self.fleet.recorded = None
        self.batch: int = cell.settings["batch_size"]
        whole = self.fleet.stack([data.train] * models)
        self.data = Split(
            {name: values(x)[:, : 4 * self.batch] for name, x in whole.modalities.items()},
            whole.target[:, : 4 * self.batch],
        )

    def run(self) -> None:
        self.fleet.epoch(self.data, 0)

    def parameters(self) -> int:
        return sum(p[0].numel() for p in self.fleet.parameters.values())


def steps(
    experiment: PIDSimplex, cells: dict[str, Cell], models: list[int], device: torch.device, precision: Precision
) -> list[dict[str, Any]]:
    """A row for each method and number of models."""
    best_flops, best_bytes = ceilings(device, precision, 8192 if device.type == "cuda" else 512)
    print(f"ceilings: {best_flops / 1e12:.1f} TFLOP/s ({precision}), {best_bytes / 1e12:.2f} TB/s")
    print(
        f"{'method':<26}{'models':>7}{'launched':>9}{'ms/step':>9}{'model-steps/s':>15}"
        f"{'TFLOP/s':>9}{'of best':>9}{'TB/s':>7}{'of best':>9}"
    )
    rows = []
    for name, cell in cells.items():
        with Flops() as counter:  # type: ignore[no-untyped-call]
            single = Steps(experiment, cell, 1, device, launched=True)
            single.run()
        needed = counter.total / 4
        unavoidable = single.parameters() * (3 * 4 + ADAM)
        for n in models:
            launched, each = (_each(experiment, cell, n, device, precision, plain) for plain in (True, False))
            flops, moved = needed * n / each, unavoidable * n / each
            rows.append({"method": name, "models": n, "launched_ms_per_step": 1e3 * launched,
                         "ms_per_step": 1e3 * each, "model_steps_per_second": n / each,
                         "tflops": flops / 1e12, "of_ceiling_flops": flops / best_flops, "tbytes": moved / 1e12,
                         "of_ceiling_bytes": moved / best_bytes, "precision": precision,
                         "device": device_name(str(device)), "torch": torch.__version__})  # fmt: skip
            print(
                f"{name:<26}{n:>7}{1e3 * launched:>9.1f}{1e3 * each:>9.1f}{n / each:>15.0f}"
                f"{flops / 1e12:>9.1f}{flops / best_flops:>9.0%}"
                f"{moved / 1e12:>7.2f}{moved / best_bytes:>9.0%}",
                flush=True,
            )
    return rows


def _each(
    experiment: PIDSimplex, cell: Cell, models: int, device: torch.device, precision: Precision, launched: bool
) -> float:
    """Seconds of a step."""
    many = Steps(experiment, cell, models, device, launched)
    with matrix_products(precision, device):
        many.run()  # the second step of it is recorded
        of_step = seconds(many.run, device, 4) / 4
    del many
    release(device)
    return of_step


class Unrecorded(StackedModels):
    """Launches every kernel of every step, as an ordinary loop does."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.recorded = None


def launching(run: Callable[[], object]) -> None:
    """Train without recording."""
    namespace = vars(fleet)
    namespace["StackedModels"] = Unrecorded
    try:
        run()
    finally:
        namespace["StackedModels"] = StackedModels


class Compiled:
    """A function traced with the first arguments it meets, derivatives and all, and compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self.compiled is None:
            traced = make_fx(lambda *inputs: self.function(*inputs))(*args)
            self.compiled = torch.compile(traced, fullgraph=True, dynamic=False)
        return self.compiled(*args)


def compiling(
    experiment: PIDSimplex, cells: dict[str, Cell], models: int, device: torch.device, precision: Precision
) -> list[dict[str, Any]]:
    """Eager steps against compiled ones, and after how many steps compiling has paid for itself."""
    rows = []
    for name, cell in cells.items():
        many = Steps(experiment, cell, models, device, launched=True)
        with matrix_products(precision, device):
            many.run()
            eager = seconds(many.run, device, 2) / 4
            many.fleet.gradient = Compiled(many.fleet.gradient)  # type: ignore[assignment]
            first = seconds(many.run, device)
            compiled = seconds(many.run, device, 2) / 4
        cost = first - 4 * compiled
        del many
        release(device)
        pays = cost / (eager - compiled) if eager > compiled else None
        rows.append({"method": name, "models": models, "eager_ms_per_step": 1e3 * eager,
                     "compiled_ms_per_step": 1e3 * compiled, "compile_seconds": cost, "pays_after_steps": pays,
                     "precision": precision, "device": device_name(str(device)),
                     "torch": torch.__version__})  # fmt: skip
        print(f"{name:<26}{models:>7}{1e3 * eager:>9.1f} ms eager{1e3 * compiled:>9.1f} ms compiled{cost:>8.1f} s to "
              f"compile, pays after {'no' if pays is None else format(pays, '.0f')} steps", flush=True)  # fmt: skip
    return rows


def whole(
    experiment: PIDSimplex, folder: Path, device: torch.device, precision: Precision, alone_too: bool
) -> list[dict[str, Any]]:
    """The four columns from the start of the program to ``results.csv``, against one model of each method alone."""
    cells = experiment.cells()
    rows: list[dict[str, Any]] = []
    sweep(experiment, cells, Folder(folder, experiment.config()), device=str(device), precision=precision, say=print)
    together = lifetime()
    print(f"{len(cells)} models, from the start of the program to results.csv: {together:.1f} s", flush=True)
    for method in experiment.methods if alone_too else ():
        mine = [cell for cell in cells if cell.method == method]
        single = [mine[len(mine) // 2]]
        run = partial(fleet.train, experiment, single, device, precision=precision)
        recorded, alone = seconds(run, device), seconds(partial(launching, run), device)
        rows.append({"method": method, "models": len(mine), "alone_seconds_each": alone,
                     "alone_seconds": alone * len(mine), "alone_recorded_seconds": recorded * len(mine)})  # fmt: skip
        print(
            f"{method:<26}{alone:8.2f} s alone, {recorded:.2f} s recorded; {alone * len(mine):10.0f} s for {len(mine)} one "
            "after the other",
            flush=True,
        )
    run_row = {"method": "all four", "models": len(cells), "fleet_seconds": together, "precision": precision,
               "device": device_name(str(device)), "torch": torch.__version__}  # fmt: skip
    if not alone_too:
        return [run_row]
    one_by_one, at_best = (
        sum(float(row[name]) for row in rows) for name in ("alone_seconds", "alone_recorded_seconds")
    )
    print(
        f"{len(cells)} models, from the start of the program to results.csv: {together:.1f} s. One at a time, one model of "
        f"each method timed and multiplied up: {one_by_one:.0f} s, recorded {at_best:.0f} s. Ratios "
        f"{one_by_one / together:.0f} and {at_best / together:.0f}."
    )
    ratios = {"alone_seconds": one_by_one, "ratio": one_by_one / together, "alone_recorded_seconds": at_best,
              "ratio_recorded": at_best / together}  # fmt: skip
    return [*rows, run_row | ratios]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", default="tf32", choices=["float32", "tf32", "bf16"])
    parser.add_argument("--models", type=int, nargs="+", default=[1, 8, 64, 231, 693], help="how many at once")
    parser.add_argument("--width", type=int, default=1024, help="of the network")
    parser.add_argument("--step", type=float, default=0.05, help="of the grid, for --whole")
    parser.add_argument("--whole", action="store_true", help="train the four main columns too")
    parser.add_argument("--without-alone", action="store_true", help="with --whole: nothing but the four columns")
    parser.add_argument("--compile", action="store_true", help="time compiled steps too")
    parser.add_argument("--epochs", type=int, default=30, help="for --whole")
    parser.add_argument("--out", type=Path, help="folder for steps.csv, whole.csv and the results of --whole")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    out: Path = options.out or Path("runs/fleet_gpu")
    out.mkdir(parents=True, exist_ok=True)
    experiment = PIDSimplex(methods=MAIN, width=options.width, step=options.step, epochs=options.epochs)
    print(f"{device_name(str(device))}, {platform.machine()}, torch {torch.__version__}, precision {options.precision}")
    if options.whole:
        alone_too = not options.without_alone
        write(out / "whole.csv", whole(experiment, out / "whole", device, options.precision, alone_too))
    if options.without_alone:
        return
    first = {method: next(c for c in experiment.cells() if c.method == method) for method in MAIN}
    learned = first["synib-learned"]
    first[LOOP] = Cell(
        learned.experiment, learned.method, learned.factors, {**learned.settings, **VARIANTS["20 steps"][1]}
    )
    if options.compile:
        few = {name: first[name] for name in ("vanilla", "synib-random")}
        write(out / "compile.csv", compiling(experiment, few, max(options.models), device, options.precision))
    write(out / "steps.csv", steps(experiment, first, options.models, device, options.precision))


if __name__ == "__main__":
    main()
