"""The four main columns of the PID simplex, trained again: how long it takes, and whether the digits are the same.

Needs a GPU like the one of the published run for the same digits; ``timings.csv`` of that run says which.

    python benchmarks/simplex_again.py [--device cuda] [--out FILE.csv]
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from synib.files import read_csv, read_json, write_csv
from synib.studies import PIDSimplex, run
from synib.training.device import device_name

PUBLISHED = Path("docs/results/pid-simplex")
COLUMNS = ("vanilla", "synib-oracle", "synib-random", "synib-learned")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train the simplex again and compare every metric with the published one."
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--out", type=Path, help="a CSV file for the one line that is printed")
    options = parser.parse_args()
    experiment = PIDSimplex.from_config({**read_json(PUBLISHED / "config.json"), "methods": list(COLUMNS)})
    published = {row["cell"]: row for row in read_csv(PUBLISHED / "results.csv")}
    with tempfile.TemporaryDirectory() as home:
        start = time.perf_counter()
        folder = run(experiment, Path(home) / "run", device=options.device, precision=options.precision)
        seconds = time.perf_counter() - start
        rows = read_csv(folder / "results.csv")
    differences = [
        abs(value - published[row["cell"]][name])
        for row in rows
        for name, value in row.items()
        if "accuracy" in name and value is not None
    ]
    line = {
        "models": len(rows),
        "seconds": round(seconds, 1),
        "device": device_name(options.device),
        "torch": torch.__version__,
        "precision": options.precision,
        "metrics": len(differences),
        "equal": sum(difference == 0 for difference in differences),
        "largest_difference": max(differences),
    }
    print(", ".join(f"{name} {value}" for name, value in line.items()))
    if options.out is not None:
        write_csv(options.out, [line])


if __name__ == "__main__":
    main()
