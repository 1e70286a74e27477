"""How the time and memory of a fleet step on a CPU grow with the number of models.

Spurious-XOR models (4,434 parameters), batches as in the study. Two ways to train N models: all in one group ("one group"),
and in groups of the size that the fleet chooses on a CPU ("groups"). Each number of models is a process of its own; seconds
are those of the processor, for one step of all models, without the first steps, in which the step is recorded. Memory is the
most that the process took beyond its imports. The exponent is the logarithm of the ratio of two consecutive measurements
over that of their numbers of models: 1 is linear.

    OMP_NUM_THREADS=1 python benchmarks/scaling_fleet.py [--models 1 --models 10 ...] [--method vanilla] [--out FILE.csv]
        [--plot FILE.svg]
"""

import argparse
import csv
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from synib.data import Dataset
from synib.studies import SpuriousXOR
from synib.training import fleet
from synib.training.cells import Cell, cut
from synib.training.device import release, without_denormals
from synib.training.stacked import StackedModels

MODELS = (1, 10, 100, 500, 2000)
STEPS, WARM = 4, 4  # timed, and before
MEASURES = {"milliseconds": "processor milliseconds of a step", "megabytes": "memory (MB)"}


def measure(method: str, models: int, grouped: bool) -> dict[str, float]:
    """Milliseconds of a step of all models, and megabytes."""
    experiment = SpuriousXOR(seeds=-(-models // 7), methods=(method,))
    cells = experiment.cells()[:models]
    some = [experiment.data(cell) for cell in cells[:7]]
    seconds, before = 0.0, _peak()
    for group in cut(cells, fleet.ON_CPU) if grouped else [cells]:
        seconds += _step(experiment, group, [some[i % len(some)] for i in range(len(group))])
    return {"milliseconds": round(1e3 * seconds, 3), "megabytes": round((_peak() - before) / 1e6, 1)}


def _step(experiment: SpuriousXOR, cells: list[Cell], data: list[Dataset]) -> float:
    """Seconds of a step, the median of a few."""
    size = cells[0].settings["batch_size"]
    models = StackedModels(experiment, cells, data, torch.device("cpu"))
    rows = models.stack([d.train.take(slice(size)) for d in data])
    taken = []
    with without_denormals():
        for step in range(WARM + STEPS):
            start = time.process_time()
            models.epoch(rows, step)  # of a single batch
            taken.append(time.process_time() - start)
    del models
    release("cpu")  # as between the shards of a run
    return statistics.median(taken[WARM:])


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "synib"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(MEASURES), figsize=(9, 3.6), layout="constrained")
    for panel, (measure, words) in zip(axes, MEASURES.items(), strict=True):
        for name, own in _series(lines).items():
            panel.loglog([int(x["models"]) for x in own], [float(x[measure]) for x in own], marker="o", label=name)
        last = max(float(own[-1][measure]) for own in _series(lines).values())
        most = max(int(line["models"]) for line in lines)
        sizes = sorted({int(line["models"]) for line in lines})
        panel.loglog(sizes, [last * n / most for n in sizes], ":", color="gray", label="linear")
        panel.set_ylim(bottom=min(float(line[measure]) for line in lines) / 2)
        panel.set_xlabel("models")
        panel.set_ylabel(words)
        panel.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=120)
    pyplot.close(figure)


def _series(lines: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = dict.fromkeys((line["method"], line["way"]) for line in lines)
    return {", ".join(name): [line for line in lines if (line["method"], line["way"]) == name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="append", type=int, help="1 to 2,000 by default")
    parser.add_argument("--method", action="append", help="vanilla and synib-random by default")
    parser.add_argument("--out", type=Path, help="add the lines there; those that it has are not measured again")
    parser.add_argument("--plot", type=Path, help="draw it there")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # a process of its own
    options = parser.parse_args()
    if options.one:
        method, models, way = options.one
        print(json.dumps(measure(method, int(models), way == "groups")))
        return
    lines: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        with options.out.open(newline="") as stream:
            lines += csv.DictReader(stream)
    done = {(line["method"], line["way"], int(line["models"])) for line in lines}
    for method in options.method or ["vanilla", "synib-random"]:
        for way in ("one group", "groups"):
            for models in options.models or MODELS:
                if (way == "groups" and models <= fleet.ON_CPU) or (method, way, models) in done:
                    continue
                command = [sys.executable, __file__, "--one", method, str(models), way]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                lines.append({"method": method, "way": way, "models": models, **found,
                              "threads": torch.get_num_threads(), "torch": torch.__version__})  # fmt: skip
                print(", ".join(f"{name} {value}" for name, value in lines[-1].items()), flush=True)
                if options.out:
                    with options.out.open("w", newline="") as stream:
                        writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
                        writer.writeheader()
                        writer.writerows(lines)
    for name, own in _series(lines).items():
        for before, after in pairwise(own):
            more = math.log(int(after["models"]) / int(before["models"]))
            growth = {m: round(math.log(float(after[m]) / float(before[m])) / more, 2) for m in MEASURES}
            print(f"{name}, to {int(after['models']):,}: exponents", growth)
    if options.plot:
        draw(lines, options.plot)


if __name__ == "__main__":
    main()
