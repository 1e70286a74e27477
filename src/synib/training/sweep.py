"""Train all shards of a run and collect the tables of results."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

import synib
from synib.training import fleet, solo
from synib.training.cells import Cell, grouped, programs
from synib.training.costs import cost
from synib.training.device import Precision, device_name, out_of_memory, release
from synib.training.folder import Folder
from synib.training.learner import Recipe
from synib.training.shards import Failure, Progress, ShardTraining, Workers

__all__ = ["Engine", "Progress", "check_cells", "row", "sweep", "train_and_collect", "train_shard"]

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
    on_progress: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train the cells that are not finished yet, then collect the tables.

    A shard that runs out of memory is halved, and training goes on. A model whose loss or parameters are no longer finite
    fails on its own: the column ``error`` of its row says why. No other run can write to the folder meanwhile.

    Args:
        recipe: Provides each cell's data, model and method.
        cells: The models to train.
        folder: Where results are written. A finished shard is written at once; a second run skips it.
        device: The device to train on.
        precision: Precision of matrix products in training.
        together: How many models to train at once; by default as many as fit into the free memory
            (:func:`fleet.capacity`). A run that is continued keeps the shards it began with.
        engine: ``"fleet"``, or ``"solo"`` for one model after the other on Lightning (:func:`solo.train`).
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.
    """
    check_cells(cells, engine)

    def propose() -> list[list[Cell]]:
        if engine == "solo":  # each model is written as soon as it is trained
            return [[cell] for cell in cells]
        return grouped(cells, lambda same: together or fleet.capacity(recipe, same, device, precision))

    workers = _ThisProcess(recipe, device, precision, engine, folder.keep_failed)
    train_and_collect(recipe, cells, folder, workers, propose, on_progress, say)


def train_and_collect(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    workers: Workers,
    propose: Callable[[], list[list[Cell]]],
    on_progress: Progress,
    say: Callable[[str], None],
) -> None:
    """Train the unfinished shards of a folder, then write its tables and report models that failed.

    Args:
        recipe, cells, folder, on_progress, say: As for :func:`sweep`.
        workers: Who trains.
        propose: Groups the cells into shards, if the folder has no recorded shards.
    """
    with folder.locked(say):
        shards = folder.shards(cells, propose)
        for sentence in folder.set_aside_damaged(shards):
            say(sentence)
        ShardTraining(folder, workers, _costs(recipe, cells), on_progress, say).run(shards)
        failed = folder.collect(cells)
    if failed:
        say(
            f"{len(failed)} of {len(cells)} models failed. The first: {failed[0]['error']} The column error of results.csv "
            "has all of them."
        )


def check_cells(cells: Sequence[Cell], engine: Engine) -> None:
    """Raise ``ValueError`` if an engine cannot train these cells, before a folder is made or anything is trained."""
    if engine == "solo":
        for cell in cells:
            solo.plan_of(cell)
    else:
        for same in programs(cells):
            fleet.check_together(same)


def _costs(recipe: Recipe, cells: Sequence[Cell]) -> dict[str, float]:
    """Program → cost of an epoch of one of its models, in epochs of a vanilla model."""
    return {same[0].program: cost(recipe.method(same[0], recipe.data(same[0]))) for same in programs(cells)}


@dataclass
class _ThisProcess:
    """Trains one shard after the other in this process."""

    recipe: Recipe
    device: str
    precision: Precision
    engine: Engine
    keep_failed: Callable[[Cell, Mapping[str, Tensor]], None]
    submitted: list[tuple[list[Cell], Callable[[], None]]] = field(default_factory=list)

    @property
    def memory_of(self) -> str:
        return device_name(self.device)

    def room(self) -> int:
        return 1 - len(self.submitted)

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None]) -> None:
        self.submitted.append((shard, on_epoch))

    def results(self) -> Iterator[tuple[list[Cell], dict[str, Any] | Failure]]:
        while self.submitted:
            shard, on_epoch = self.submitted.pop()
            options = self.device, self.precision, on_epoch, self.engine, self.keep_failed
            yield shard, train_shard(self.recipe, shard, *options)


def train_shard(
    recipe: Recipe,
    shard: Sequence[Cell],
    device: str,
    precision: Precision,
    on_epoch: Callable[[], None],
    engine: Engine,
    keep_failed: Callable[[Cell, Mapping[str, Tensor]], None],
) -> dict[str, Any] | Failure:
    """Train a shard here and now; returns its content for :meth:`Folder.write`, or that memory did not suffice.

    Args:
        recipe, shard, device, precision, on_epoch: As for :func:`fleet.train`.
        engine: ``"fleet"`` or ``"solo"``.
        keep_failed: Called with the last good parameters and buffers of each cell that failed, if safetensors is installed.
    """
    start = time.perf_counter()
    result: dict[str, Any] | Failure
    try:
        train: Callable[..., fleet.Trained | solo.Trained] = solo.train if engine == "solo" else fleet.train
        trained = train(recipe, shard, device, on_epoch, precision)
        result = {
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
        if trained.failures and find_spec("safetensors") is not None:
            learners = trained.learners
            for i in trained.failures:
                keep_failed(shard[i], dict([*learners[i].named_parameters(), *learners[i].named_buffers()]))
            del learners
        del trained
    except (RuntimeError, MemoryError) as e:
        if not out_of_memory(e):
            raise
        result = Failure.OUT_OF_MEMORY
    release(device)  # after the except clause, whose traceback holds the models
    return result


def row(cell: Cell, metrics: Mapping[str, float], error: str | None = None) -> dict[str, Any]:
    """A row of ``results.csv``. It has no times in it, so that a continued run ends with the same bytes.

    Args:
        cell: The model that was trained.
        metrics: Metric → value; NaN values are left out.
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
