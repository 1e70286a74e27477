"""Train all cells of an experiment, shard by shard, and leave a table of results."""

import itertools
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import synib
from synib.engines import fleet
from synib.engines.cells import Cell, Recipe, shards
from synib.engines.folder import Folder

Progress = Callable[[float, float], None]


def sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    *,
    device: str = "cpu",
    shard_size: int = 16,
    on_progress: Progress = lambda done, of: None,
) -> None:
    """Train the cells that are not finished yet, then collect the tables.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: What to train.
        folder: Where results go. A finished shard is written at once; a second run skips it.
        device: Where to train.
        shard_size: How many models to train at once. A run that is continued keeps the grouping it began with.
        on_progress: Called with the work done and the work there is, in epochs of a vanilla model.
    """
    groups = folder.shards(cells, shards(cells, shard_size))
    epochs = [shard[0].settings["epochs"] for shard in groups]
    work = [_cost(recipe, shard[0]) * len(shard) for shard in groups]  # of one epoch
    total, done = sum(w * e for w, e in zip(work, epochs, strict=True)), 0.0
    for i, shard in enumerate(groups):
        if not folder.finished(shard):
            passed = itertools.count(1)

            def on_epoch(passed: Iterator[int] = passed, before: float = done, work: float = work[i]) -> None:
                on_progress(before + work * next(passed), total)

            start = time.perf_counter()
            trained = fleet.train(recipe, shard, device, on_epoch)
            seconds = time.perf_counter() - start
            folder.write(
                shard,
                {
                    "rows": [row(cell, metrics) for cell, metrics in zip(shard, trained.metrics, strict=True)],
                    "curves": trained.curves,
                    "timing": {"seconds": round(seconds, 3), "device": device_name(device)},
                },
            )
        done += work[i] * epochs[i]
        on_progress(done, total)
    folder.collect(groups, cells)


def _cost(recipe: Recipe, cell: Cell) -> float:
    return recipe.method(cell, recipe.data(cell)).cost


def row(cell: Cell, metrics: Mapping[str, float]) -> dict[str, Any]:
    """A line of ``results.csv``. It has no clock in it, so that a continued run ends with the same bytes."""
    versions = f"synib {synib.__version__}, torch {torch.__version__}"
    return {
        "experiment": cell.experiment,
        "method": cell.method,
        **cell.factors,
        "seed": cell.seed,
        **{name: value for name, value in metrics.items() if value == value},
        "cell": cell.id,
        "versions": versions,
    }


def device_name(device: str) -> str:
    """The device in words."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def hardware() -> str:
    """This machine in words."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux: what platform says must do
    return f"{model}, {os.cpu_count()} cores"


def choose_device(device: str) -> str:
    """``"auto"`` is CUDA where there is some; a device that is not there is refused."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise ValueError(f"--device is auto, cpu or cuda; got {device!r}.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda was asked for, but torch finds no CUDA device here; use --device cpu.")
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"--device is auto, cpu or cuda; got {device!r}.")
    return device
