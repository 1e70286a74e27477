"""Train all cells of an experiment, shard by shard, and leave a table of results."""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

import synib
from synib.training import fleet, solo
from synib.training.cells import Cell, cut, grouped, programs
from synib.training.costs import cost
from synib.training.device import Precision, device_name, out_of_memory, release
from synib.training.folder import Folder
from synib.training.learner import Recipe

Progress = Callable[[float, float], None]
Engine = Literal["fleet", "solo", "cluster"]


def sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    together: int | None = None,
    engine: Engine = "fleet",
    on_progress: Progress = lambda done, of: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train the cells that are not finished yet, then collect the tables.

    Where the device's memory does not suffice after all, the shards that are left are halved and training goes on; what
    is finished stays as it is. A model whose numbers are none any more fails alone: its row says why. No other run can
    write to the folder meanwhile.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: What to train.
        folder: Where results go. A finished shard is written at once; a second run skips it.
        device: Where to train.
        precision: Of matrix products in training.
        together: How many models to train at once; by default as many as the free memory holds
            (:func:`fleet.capacity`). A run that is continued keeps the grouping it began with.
        engine: Who trains: the fleet, or one model after the other on Lightning (:func:`solo.train`).
        on_progress: Called with the work done and the work there is, in epochs of a vanilla model.
        say: Called with what the user should know.
    """
    check_cells(cells, engine)
    with folder.locked(say):
        _sweep(recipe, cells, folder, device, precision, together, engine, on_progress, say)


def check_cells(cells: Sequence[Cell], engine: Engine) -> None:
    """Raise ``ValueError`` if an engine cannot train them: it is said before a folder is made or anything trained."""
    if engine == "solo":
        for cell in cells:
            solo.plan_of(cell)
    else:
        for same in programs(cells):
            fleet.check_together(same)


def _sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    device: str,
    precision: Precision,
    together: int | None,
    engine: Engine,
    on_progress: Progress,
    say: Callable[[str], None],
) -> None:
    def propose() -> list[list[Cell]]:
        if engine == "solo":  # each model is kept as soon as it is trained
            return [[cell] for cell in cells]
        return grouped(cells, lambda same: together or fleet.capacity(recipe, same, device, precision))

    waiting = deque(begun(folder, cells, propose, say))
    halvings = 0
    costs = costs_of(recipe, cells)

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

            content = train_shard(recipe, shard, device, precision, on_epoch, engine, folder.keep_failed)
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
    ended(folder, cells, say)


def begun(
    folder: Folder, cells: Sequence[Cell], propose: Callable[[], list[list[Cell]]], say: Callable[[str], None]
) -> list[list[Cell]]:
    """The shards of a folder; files of them that are damaged are set aside, which is said."""
    shards = folder.shards(cells, propose)
    for sentence in folder.set_aside_damaged(shards):
        say(sentence)
    return shards


def costs_of(recipe: Recipe, cells: Sequence[Cell]) -> dict[str, float]:
    """Program → what an epoch of one of its models costs, in those of a vanilla model."""
    return {same[0].program: cost(recipe.method(same[0], recipe.data(same[0]))) for same in programs(cells)}


def ended(folder: Folder, cells: Sequence[Cell], say: Callable[[str], None]) -> None:
    """Collect the tables, and say how many models failed."""
    failed = folder.collect(cells)
    if failed:
        say(
            f"{len(failed)} of {len(cells)} models failed. The first: {failed[0]['error']} The column error of results.csv "
            "has all of them."
        )


def train_shard(
    recipe: Recipe,
    shard: Sequence[Cell],
    device: str,
    precision: Precision,
    on_epoch: Callable[[], None],
    engine: Engine,
    keep_failed: Callable[[Cell, Mapping[str, Tensor]], None] | None = None,
) -> dict[str, Any] | None:
    """What a folder keeps of a shard, or ``None`` where memory did not suffice.

    Args:
        recipe, shard, device, precision, on_epoch: As for :func:`fleet.train`.
        engine: Who trains.
        keep_failed: Given the last good parameters and buffers of each cell that failed, where safetensors is installed.
    """
    start = time.perf_counter()
    content = None
    try:
        train: Callable[..., fleet.Trained | solo.Trained] = solo.train if engine == "solo" else fleet.train
        trained = train(recipe, shard, device, on_epoch, precision)
        content = {
            "rows": [
                row(cell, metrics, trained.failures.get(i))
                for i, (cell, metrics) in enumerate(zip(shard, trained.metrics, strict=True))
            ],
            "curves": trained.curves,
            "timing": {
                "seconds": round(time.perf_counter() - start, 3),
                "device": device_name(device),
                "precision": precision,
            },
        }
        if trained.failures and keep_failed is not None and find_spec("safetensors") is not None:
            learners = trained.learners
            for i in trained.failures:
                keep_failed(shard[i], dict([*learners[i].named_parameters(), *learners[i].named_buffers()]))
            del learners
        del trained
    except (RuntimeError, MemoryError) as e:
        if not out_of_memory(e):
            raise
        if len(shard) == 1:
            raise ValueError(
                f"One {shard[0].method} model alone does not fit into the memory of {device_name(device)}; use a "
                "smaller model or batch_size, or another device."
            ) from e
    release(device)
    return content


def _halves(shard: list[Cell]) -> list[list[Cell]]:
    return cut(shard, max(1, -(-len(shard) // 2)))


def row(cell: Cell, metrics: Mapping[str, float], error: str | None = None) -> dict[str, Any]:
    """A line of ``results.csv``. It has no clock in it, so that a continued run ends with the same bytes.

    Args:
        cell: What was trained.
        metrics: What was measured.
        error: Why training failed, if it did.
    """
    versions = f"synib {synib.__version__}, torch {torch.__version__}"
    return {
        "experiment": cell.experiment,
        "method": cell.method,
        **cell.factors,
        "seed": cell.seed,
        **{name: value for name, value in metrics.items() if value == value},
        "cell": cell.id,
        "versions": versions,
        **({"error": error} if error is not None else {}),
    }
