"""What replaying the steps of a fleet on a CPU saves: the models of `make demo`, in processor seconds.

For each method of the Spurious-XOR figure its models (three seeds) are trained together for a few epochs: without
recording, with recordings of steps that allocate up to 512 MB as in earlier versions, and as now; whether all parameters
are equal. The last column is multiplied up to all epochs.

    OMP_NUM_THREADS=1 python benchmarks/tape_cpu.py [--epochs 10] [--out FILE.csv]
"""

import argparse
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from fleet_gpu import write

from synib.studies import SpuriousXOR
from synib.training import tape
from synib.training.device import device_name
from synib.training.stacked import StackedModels

WAYS = {"not recorded": 0, "up to 512 MB": 1 << 29, "now": tape.LARGEST}
BEGINNING = 2  # epochs in which steps are recorded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="that are timed")
    parser.add_argument("--out", type=Path, default=Path("runs/tape_cpu.csv"))
    options = parser.parse_args()
    experiment = SpuriousXOR(seeds=3)
    rows: list[dict[str, Any]] = []
    sums = dict.fromkeys(WAYS, 0.0)
    for method in experiment.methods:
        cells = [cell for cell in experiment.cells() if cell.method == method]
        data = [experiment.data(cell) for cell in cells]
        expected: dict[str, torch.Tensor] = {}
        for way, limit in WAYS.items():
            with mock.patch.object(tape, "LARGEST", limit):
                fleet = StackedModels(experiment, cells, data, torch.device("cpu"))
                training = fleet.stack([d.train for d in data])
                for epoch in range(BEGINNING):
                    fleet.epoch(training, epoch)
                start = time.process_time()
                for epoch in range(BEGINNING, BEGINNING + options.epochs):
                    fleet.epoch(training, epoch)
                each = (time.process_time() - start) / options.epochs
            expected = expected or {name: p.clone() for name, p in fleet.parameters.items()}
            equal = all(torch.equal(p, expected[name]) for name, p in fleet.parameters.items())
            whole = each * cells[0].settings["epochs"]
            sums[way] += whole
            replayed = fleet.recorded is not None and fleet.recorded.works
            rows.append({"method": method, "models": len(cells), "how": way, "recorded": replayed,
                         "ms_per_epoch": 1e3 * each, "equal": equal, "all_epochs_seconds": whole,
                         "device": device_name("cpu"), "torch": torch.__version__})  # fmt: skip
            print(*(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in rows[-1].items()), flush=True)
    print({way: round(seconds, 1) for way, seconds in sums.items()})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write(options.out, rows)


if __name__ == "__main__":
    main()
