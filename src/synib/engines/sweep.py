"""Train all cells of an experiment, shard by shard, and leave a table of results."""

import itertools
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import torch

import synib
from synib.engines import fleet
from synib.engines.cells import Cell, Recipe, cut, programs
from synib.engines.folder import Folder

Progress = Callable[[float, float], None]


def sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    *,
    device: str = "cpu",
    precision: fleet.Precision = "float32",
    together: int | None = None,
    on_progress: Progress = lambda done, of: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train the cells that are not finished yet, then collect the tables.

    Where the device's memory does not suffice after all, the shards that are left are halved and training goes on; what
    is finished stays as it is.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: What to train.
        folder: Where results go. A finished shard is written at once; a second run skips it.
        device: Where to train.
        precision: Of matrix products in training.
        together: How many models to train at once; by default as many as the free memory holds
            (:func:`fleet.capacity`). A run that is continued keeps the grouping it began with.
        on_progress: Called with the work done and the work there is, in epochs of a vanilla model.
        say: Called with what the user should know.
    """

    def propose() -> list[list[Cell]]:
        # Neighbours with the same learning rate and weight decay are updated in one go.
        alike = (
            sorted(same, key=lambda cell: (cell.settings["lr"], cell.settings["weight_decay"]))
            for same in programs(cells)
        )
        return [
            shard for same in alike for shard in cut(same, together or fleet.capacity(recipe, same, device, precision))
        ]

    waiting = deque(folder.shards(cells, propose))
    halvings = 0
    costs = {same[0].program: _cost(recipe, same[0]) for same in programs(cells)}

    def work_of(shard: Sequence[Cell]) -> float:
        """What training a shard takes, in epochs of a vanilla model."""
        return costs[shard[0].program] * len(shard) * shard[0].settings["epochs"]

    total, done = sum(map(work_of, waiting)), 0.0
    while waiting:
        shard = waiting.popleft()
        work = work_of(shard)
        if not folder.finished(shard):
            passed = itertools.count(1)
            epochs = shard[0].settings["epochs"]

            def on_epoch(passed: Iterator[int] = passed, before: float = done, work: float = work / epochs) -> None:
                on_progress(before + work * next(passed), total)

            content = _train(recipe, shard, device, precision, on_epoch)
            if content is None:
                halvings += 1
                left = [half for s in (shard, *waiting) for half in (_halves(s) if not folder.finished(s) else [s])]
                waiting = deque(folder.regroup(left))
                say(
                    f"Out of memory with {len(shard)} models at once on {device}; the shards that are left are halved "
                    "and training goes on. What is finished is kept."
                )
                on_progress(done, total)
                continue
            content["timing"]["halvings"] = halvings  # in this process
            folder.write(shard, content)
        done += work
        on_progress(done, total)
    folder.collect(cells)


def _train(
    recipe: Recipe, shard: Sequence[Cell], device: str, precision: fleet.Precision, on_epoch: Callable[[], None]
) -> dict[str, Any] | None:
    """What a folder keeps of a shard, or ``None`` where memory did not suffice."""
    start = time.perf_counter()
    content = None
    try:
        trained = fleet.train(recipe, shard, device, on_epoch, precision)
        content = {
            "rows": [row(cell, metrics) for cell, metrics in zip(shard, trained.metrics, strict=True)],
            "curves": trained.curves,
            "timing": {
                "seconds": round(time.perf_counter() - start, 3),
                "device": device_name(device),
                "precision": precision,
            },
        }
        del trained
    except (RuntimeError, MemoryError) as e:
        if not _out_of_memory(e):
            raise
        if len(shard) == 1:
            raise ValueError(
                f"One {shard[0].method} model alone does not fit into the memory of {device_name(device)}; use a "
                "smaller model or batch_size, or another device."
            ) from e
    fleet.release(device)
    return content


def _out_of_memory(e: Exception) -> bool:
    # Not every allocation goes through torch's own allocator, and those of libraries fail with a plain error.
    signs = ("DefaultCPUAllocator:", "out of memory", "ALLOC_FAILED")
    return isinstance(e, torch.OutOfMemoryError | MemoryError) or any(sign in str(e) for sign in signs)


def _halves(shard: list[Cell]) -> list[list[Cell]]:
    return cut(shard, max(1, -(-len(shard) // 2)))


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


def choose_precision(precision: str, device: str) -> fleet.Precision:
    """The precision, if there is such a one on the device."""
    if precision not in get_args(fleet.Precision):
        raise ValueError(f"--precision is {', '.join(get_args(fleet.Precision))}; got {precision!r}.")
    if precision == "tf32" and not device.startswith("cuda"):
        raise ValueError("--precision tf32 is for CUDA devices; on a CPU use float32.")
    return cast(fleet.Precision, precision)
