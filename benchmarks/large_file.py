"""How much memory it takes to read a large file and to train on it, beside the size of the data.

Rows of two modalities of 768 numbers each are written to a folder of .npy files; then `read` and `fit` (vanilla fusion, one
candidate, one epoch, one thread) run in a process of their own. What counts is anonymous memory above that of a process that
has imported everything: pages of a mapped file are not the process's own, and the system takes them back when it needs them.

    python benchmarks/large_file.py [--rows 100000] [--out FILE.csv]
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

WIDTH = 768


def write(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    for name in ("image", "text"):
        x = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=(rows, WIDTH))
        for at in range(0, rows, 10_000):
            x[at : at + 10_000] = rng.standard_normal((min(10_000, rows - at), WIDTH), dtype=np.float32)
        x.flush()
    np.save(folder / "label.npy", rng.integers(0, 2, rows))


def own() -> float:
    """Anonymous memory of this process, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("RssAnon"))


def measured(folder: str) -> None:
    """In a process of its own: print the GB that reading took, and the most that reading and training took."""
    import torch

    from synib.own.fit import fit
    from synib.own.table import read

    torch.set_num_threads(1)
    before, most, going = own(), 0.0, True

    def watch() -> None:
        nonlocal most
        while going:
            most = max(most, own())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        table = read(folder)
        reading = own() - before
        fit(table, method="vanilla", budget=1, epochs=1, device="cpu")
    finally:
        going = False
        watcher.join()
    print(reading, most - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", help="write the row there")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measured(options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.rows)
        done = subprocess.run(
            [sys.executable, __file__, "--measure", folder],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    reading, most = map(float, done.stdout.split())
    size = 2 * options.rows * WIDTH * 4 / 1e9
    row = {"rows": options.rows, "data_gb": size, "reading_gb": round(reading, 4), "most_gb": round(most, 3)}
    print(f"{options.rows:,} rows, {size:.2f} GB: reading {reading:.3f} GB, reading and training at most {most:.2f} GB")
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerow(row)


if __name__ == "__main__":
    main()
