"""What watching the gradient's geometry costs: training with a look every ten steps against training without.

The paper's PID-XOR network and data, batch 120, vanilla and SynIB with random masks, 128 examples of each source, in the plain
loop (``fit(on_step=...)``) and in a fleet. Both trainings take turns; printed are the median ratio and quartiles.

    python benchmarks/ntk_overhead.py [--rounds 7] [--models 8] [--out FILE]
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from synib.data import Split
from synib.measure import ntk
from synib.studies import GradientGeometry
from synib.studies.pid_xor.ntk import MOST, SOURCES
from synib.tokens import values
from synib.training import loop
from synib.training.device import device_name
from synib.training.stacked import StackedModels

EVERY = 10


def seconds(run: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def in_loop(experiment: GradientGeometry, method: str, watched: bool) -> Callable[[], object]:
    """Two epochs, 30 steps, of one model on the CPU."""
    cell = next(c for c in experiment.cells() if c.method == method)
    data = experiment.data(cell)
    model, objective = experiment.model(cell, data), experiment.method(cell, data)
    groups = {source: data.train.groups[source].bool() for source in SOURCES}

    def look(step: int) -> None:
        if watched and step % EVERY == EVERY - 1:
            ntk(model, data.train.modalities, data.train.target, groups, experiment.family, MOST)

    return lambda: loop.fit(objective, model, data, lr=3e-5, epochs=2, batch_size=120, on_step=look)


def in_fleet(
    experiment: GradientGeometry, method: str, watched: bool, models: int, device: torch.device
) -> Callable[[], object]:
    """Thirty steps of many models; every ten of them a look."""
    cells = [c for c in experiment.cells() if c.method == method][:1] * models
    data = experiment.data(cells[0])
    many = StackedModels(experiment, cells, [data] * models, device)
    train, validation = many.stack([data.train] * models), many.stack([data.validation] * models)
    few = Split(
        {name: values(x)[:, : EVERY * 120] for name, x in train.modalities.items()}, train.target[:, : EVERY * 120]
    )

    def run() -> None:
        for epoch in range(3):
            many.epoch(few, epoch)
            if watched:
                many.watched(Geometry(experiment), train, validation)

    return run


class Geometry:
    """The geometry alone, without losses on all examples."""

    def __init__(self, experiment: GradientGeometry) -> None:
        self.experiment = experiment

    def watch(self, predict, parameters, train, validation):  # type: ignore[no-untyped-def]
        return self.experiment.geometry(predict, parameters, train)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", type=int, default=8, help="in the fleet")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    experiment = GradientGeometry(width=options.width, seeds=1)
    rows = []
    for method in ("vanilla", "synib-random"):
        for engine in ("loop", "fleet"):
            if engine == "loop":
                plain, watched = (in_loop(experiment, method, w) for w in (False, True))
            else:
                plain, watched = (in_fleet(experiment, method, w, options.models, device) for w in (False, True))
            plain(), watched()
            times = [(seconds(plain, device), seconds(watched, device)) for _ in range(options.rounds)]
            ratios = sorted(b / a for a, b in times)
            low, middle, high = statistics.quantiles(ratios, n=4)
            name = "cpu" if engine == "loop" else str(device)
            rows.append({"method": method, "engine": engine, "models": 1 if engine == "loop" else options.models,
                         "every": EVERY, "examples_of_each_group": MOST, "ratio": round(middle, 3),
                         "quartile_low": round(low, 3), "quartile_high": round(high, 3), "rounds": options.rounds,
                         "seconds_plain": round(statistics.median(a for a, _ in times), 4),
                         "device": device_name(name), "torch": torch.__version__})  # fmt: skip
            print(f"{method:<14}{engine:<6}{middle:6.2f}  ({low:.2f} to {high:.2f})", flush=True)
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
