"""How many models a CPU should train together: processor seconds for each model and epoch, by the size of a group.

The Spurious-XOR models (three seeds, seven strengths of the shortcut), a few epochs of each method. In every round all
sizes take turns; the table gives the median over rounds. One thread unless OMP_NUM_THREADS says otherwise; with more
threads pass ``--clock`` on a quiet machine.

    OMP_NUM_THREADS=1 python benchmarks/fleet_groups.py [--sizes 6 12 24 48] [--rounds 3] [--clock] [--out FILE.csv]
"""

import argparse
import csv
import dataclasses
import statistics
import time

import torch

from synib.studies import SpuriousXOR
from synib.training import fleet
from synib.training.cells import Cell, cut

EPOCHS = {"vanilla": 20, "synib-random": 12, "synib-learned": 3, "synib-marginal": 6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[6, 12, 24, 48])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", action="store_true", help="seconds of the clock instead of the processor")
    parser.add_argument("--out", help="also write the table there")
    options = parser.parse_args()
    clock = time.perf_counter if options.clock else time.process_time
    most = max(options.sizes)
    rows = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {'clock' if options.clock else 'processor'}")
    for method, epochs in EPOCHS.items():
        experiment = SpuriousXOR(seeds=-(-most // 7), methods=(method,))
        cells = [_shorter(cell, epochs) for cell in experiment.cells()[:most]]
        for cell in cells:
            experiment.data(cell)  # made once, for all sizes
        seconds: dict[int, list[float]] = {size: [] for size in options.sizes}
        for _ in range(options.rounds):
            for size, each in seconds.items():
                start = clock()
                for group in cut(cells, size):
                    fleet.train(experiment, group)
                each.append((clock() - start) / (len(cells) * epochs))
        for size, each in seconds.items():
            milliseconds = 1e3 * statistics.median(each)
            rows.append({"method": method, "together": size, "milliseconds": round(milliseconds, 3),
                         "low": round(1e3 * min(each), 3), "high": round(1e3 * max(each), 3), "rounds": options.rounds,
                         "threads": torch.get_num_threads(), "clock": options.clock})  # fmt: skip
            print(f"{method:<16}{size:>4} together {milliseconds:>8.2f} ms a model and epoch", flush=True)
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _shorter(cell: Cell, epochs: int) -> Cell:
    return dataclasses.replace(cell, settings={**cell.settings, "epochs": epochs})


if __name__ == "__main__":
    main()
