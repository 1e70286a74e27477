"""What a training step of each method costs, as a multiple of a vanilla step of the same model, measured in the same run.

The paper's PID-XOR network (``--width`` 1024), batch 120, with the settings of ``synib reproduce compare --on pid-xor``. A
step is ``method.backward`` and an Adam update. In every round all methods take turns and each is divided by that round's
vanilla step; the table gives the median over rounds and its quartiles. What a method does between epochs is not in it:
that time stands in a column of its own, per epoch in which it happens.

    python benchmarks/method_cost.py [--rounds 15] [--width 1024] [--out FILE.csv]
"""

import argparse
import csv
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from synib import keys
from synib.data import Dataset
from synib.methods.hooks import RevisesWeights, TrainsInStages
from synib.objective.base import Batch
from synib.studies.pid_xor.compare import ComparePID
from synib.training import backward
from synib.training.cells import Cell, learner


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def step(experiment: ComparePID, cell: Cell, data: Dataset) -> tuple[Callable[[], None], float | None]:
    """A training step of the cell's method, and the seconds of what it does between epochs, if it does anything."""
    single = learner(experiment, cell, data)
    if isinstance(single.method, TrainsInStages):
        single.method.begin(0)
    single.train()
    optimiser = torch.optim.Adam(single.parameters(), lr=1e-5, fused=True)
    rows = torch.arange(cell.settings["batch_size"])
    batch = {name: x[rows] for name, x in data.train.modalities.items()}
    target = data.train.target[rows]

    def run() -> None:
        optimiser.zero_grad()
        backward(single.method, single.model, batch, target, key=keys.key(0), examples=rows)
        optimiser.step()

    between = None
    method = single.method
    if isinstance(method, RevisesWeights) and any(map(method.revises, range(cell.settings["epochs"]))):
        initial = {name: p.detach().clone() for name, p in single.model.named_parameters()}
        train, validation = (Batch(s.modalities, s.target) for s in (data.train, data.validation))
        with torch.no_grad():
            between = seconds(lambda: method.revise(single.model, train, validation, initial, keys.key(0)))
    return run, between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--width", type=int, default=1024, help="of the network")
    parser.add_argument("--out", type=Path, help="also write the table there")
    options = parser.parse_args()
    experiment = ComparePID(seeds=1, width=options.width)
    cells = {cell.method: cell for cell in experiment.cells()}
    steps = {method: step(experiment, cell, experiment.data(cell)) for method, cell in cells.items()}
    for run, _ in steps.values():
        run()
    ratios: dict[str, list[float]] = {method: [] for method in steps}
    for _ in range(options.rounds):
        taken = {method: seconds(run) for method, (run, _) in steps.items()}
        for method, each in taken.items():
            ratios[method].append(each / taken["vanilla"])
    hardware = f"{platform.machine()}, {torch.get_num_threads()} CPU threads, torch {torch.__version__}"
    print(f"width {options.width}, {options.rounds} rounds, {hardware}")
    print(f"{'method':<18}{'x vanilla':>10}{'quartiles':>16}{'between epochs':>17}")
    rows: list[dict[str, Any]] = []
    for method, of_method in ratios.items():
        low, middle, high = statistics.quantiles(of_method, n=4)
        between = steps[method][1]
        rows.append({"method": method, "ratio": round(middle, 3), "low": round(low, 3), "high": round(high, 3),
                     "between_epochs_seconds": None if between is None else round(between, 3), "rounds": options.rounds,
                     "width": options.width, "hardware": hardware})  # fmt: skip
        note = "" if between is None else f"{between:.2f} s"
        print(f"{method:<18}{middle:>10.2f}{low:>9.2f} -{high:>5.2f}{note:>17}")
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
