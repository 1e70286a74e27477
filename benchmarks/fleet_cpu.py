"""The Spurious-XOR figure by the fleet, against the same code training one cell at a time, in one run.

The fleet trains all cells of the figure (7 strengths of the shortcut x all methods x ``--seeds``). One at a time is
timed on ``--alone`` cells of each method, in between, and multiplied up. A plain PyTorch loop (no
vmap: the objective, ``backward()``, ``torch.optim.Adam``) is timed beside it for a few epochs of one cell of each method.

    python benchmarks/fleet_cpu.py [--seeds 3] [--alone 3] [--together 21] [--out FILE.csv]
"""

import argparse
import csv
import platform
import time
from typing import Any

import torch

from synib.studies import SpuriousXOR
from synib.training import fleet
from synib.training.cells import Cell, cut, learner, programs


def plain_loop(experiment: SpuriousXOR, cell: Cell, epochs: int) -> float:
    """Seconds that a plain training loop takes for a cell, from a few of its epochs."""
    data = experiment.data(cell)
    single = learner(experiment, cell, data)
    optimiser = torch.optim.Adam(single.parameters(), cell.settings["lr"], weight_decay=cell.settings["weight_decay"])
    start = time.perf_counter()
    for _ in range(epochs):
        for rows in torch.randperm(len(data.train)).split(cell.settings["batch_size"]):
            batch = {name: x[rows] for name, x in data.train.modalities.items()}
            optimiser.zero_grad(set_to_none=True)
            loss, _ = single.method(single.model, batch, data.train.target[rows])
            loss.backward()
            optimiser.step()
    return (time.perf_counter() - start) * cell.settings["epochs"] / epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the figure that the fleet trains")
    parser.add_argument("--alone", type=int, default=3, help="cells of each method trained one at a time")
    parser.add_argument("--together", type=int, default=21, help="models trained at once")
    parser.add_argument("--out", help="also write the table there")
    options = parser.parse_args()

    experiment = SpuriousXOR(seeds=options.seeds)
    cells = experiment.cells()
    for cell in cells:
        experiment.data(cell)  # made once, for both sides
    print(
        f"{len(cells)} models, torch {torch.__version__}, {platform.machine()}, {torch.get_num_threads()} CPU threads; "
        f"fleet of {options.together}; one at a time measured on {options.alone} cells of each method"
    )
    print(f"{'method':<16}{'fleet s':>9}{'alone s':>9}{'ratio':>7}{'plain loop s':>14}{'ratio':>7}")
    rows: list[dict[str, Any]] = []
    for method in experiment.methods:
        mine = [cell for cell in cells if cell.method == method]
        few = mine[:: max(1, len(mine) // options.alone)][: options.alone]
        fleet_seconds = alone_seconds = 0.0
        groups = [piece for same in programs(mine) for piece in cut(same, options.together)]
        for i, group in enumerate(groups):
            start = time.perf_counter()
            fleet.train(experiment, group)
            fleet_seconds += time.perf_counter() - start
            for cell in few[i :: len(groups)]:
                start = time.perf_counter()
                fleet.train(experiment, [cell])
                alone_seconds += (time.perf_counter() - start) * len(mine) / len(few)
        epochs = 2 if method == "synib-learned" else 10
        plain_seconds = plain_loop(experiment, mine[0], epochs) * len(mine)
        rows.append({"method": method, "models": len(mine), "fleet_seconds": fleet_seconds,
                     "alone_seconds": alone_seconds, "plain_loop_seconds": plain_seconds})  # fmt: skip
        _show(rows[-1])
    whole = {key: sum(row[key] for row in rows) for key in rows[0] if key != "method"}
    rows.append({"method": "whole figure", **whole})
    _show(rows[-1])
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} for row in rows)


def _show(row: dict[str, Any]) -> None:
    fleet_s, alone, plain = (float(row[key]) for key in ("fleet_seconds", "alone_seconds", "plain_loop_seconds"))
    print(
        f"{row['method']:<16}{fleet_s:>9.1f}{alone:>9.1f}{alone / fleet_s:>7.1f}{plain:>14.1f}{plain / fleet_s:>7.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
