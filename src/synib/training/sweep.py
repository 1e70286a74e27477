"""Train all shards of a run in this process or by other workers, then collect the tables."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import torch

import synib
from synib.training import fleet, group_size, solo
from synib.training.cells import Cell, Recipe, cost, grouped, programs
from synib.training.device import Precision, device_name, out_of_memory, release, using_threads
from synib.training.folder import Folder
from synib.training.shards import Failure, Progress, ShardTraining, Workers

Engine = Literal["fleet", "solo", "cluster"]
Together = int | Literal["measured"] | None


def sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    together: Together = None,
    engine: Engine = "fleet",
    on_progress: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train all unfinished cells, then collect the tables.

    A shard that runs out of memory is halved, and training continues. A model whose loss or parameters are not finite
    fails alone: the column ``error`` of its row gives the reason. No other run can write to the folder meanwhile.

    Args:
        recipe: Provides each cell's data, model and method.
        cells: The models to train.
        folder: Folder for the results. A finished shard is written immediately; a second run skips it.
        device: The device to train on.
        precision: Precision of matrix products in training.
        together: Number of models to train at once; by default as many as fit into free memory
            (:func:`fleet.capacity`). ``"measured"`` measures on a CPU how many are fastest, and with how many threads
            (:func:`group_size.measured`), and records it in ``measured.json``. A continued run keeps its original shards.
        engine: ``"fleet"``, or ``"solo"`` for one model at a time with Lightning (:func:`solo.train`).
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.
    """
    check_cells(cells, engine)

    def propose() -> list[list[Cell]]:
        return shards_of(recipe, cells, device, precision, together, engine, folder)

    workers = _ThisProcess(recipe, device, precision, engine, folder)
    train_and_collect(recipe, cells, folder, workers, propose, on_progress, say)


def shards_of(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: str,
    precision: Precision,
    together: Together,
    engine: Engine,
    folder: Folder,
) -> list[list[Cell]]:
    """The cells in shards, as :func:`sweep` would train them; the arguments are the same."""
    if engine == "solo":  # each model is written as soon as it is trained
        return [[cell] for cell in cells]

    def size(same: Sequence[Cell]) -> int:
        if together == "measured" and device == "cpu":
            choice = group_size.measured(recipe, same)
            folder.record_measured(same[0].program, asdict(choice))
            return choice.together
        return together if isinstance(together, int) else fleet.capacity(recipe, same, device, precision)

    return grouped(cells, size)


def train_and_collect(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    workers: Workers,
    propose: Callable[[], list[list[Cell]]],
    on_progress: Progress,
    say: Callable[[str], None],
) -> None:
    """Train the unfinished shards of a folder, then write its tables and report failed models.

    Args:
        recipe, cells, folder, on_progress, say: As for :func:`sweep`.
        workers: What trains the shards.
        propose: Groups the cells into shards, if the folder has no recorded shards.
    """
    with folder.locked(say):
        shards = folder.shards(cells, propose)
        costs = {same[0].program: cost(recipe.method(same[0], recipe.data(same[0]))) for same in programs(cells)}
        ShardTraining(folder, workers, costs, on_progress, say).run(shards)
        failed = folder.collect(cells)
    if failed:
        say(
            f"{len(failed)} of {len(cells)} models failed. The first error: {failed[0]['error']} The column "
            "error of results.csv lists all of them."
        )


def check_cells(cells: Sequence[Cell], engine: Engine) -> None:
    """Raise ``ValueError`` if an engine cannot train these cells, before a folder is created or anything is trained."""
    if engine == "solo":
        for cell in cells:
            solo.plan_of(cell)
    else:
        for same in programs(cells):
            fleet.check_together(same)


@dataclass
class _ThisProcess:
    """Trains one shard after the other in this process."""

    tries = 1
    in_order = True

    recipe: Recipe
    device: str
    precision: Precision
    engine: Engine
    folder: Folder
    submitted: list[tuple[list[Cell], Callable[[], None]]] = field(default_factory=list)

    @property
    def memory_of(self) -> str:
        return device_name(self.device)

    def room(self) -> int:
        return 1 - len(self.submitted)

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None], halvings: int) -> None:
        self.submitted.append((shard, on_epoch))

    def results(self) -> Iterator[tuple[list[Cell], dict[str, Any] | Failure]]:
        while self.submitted:
            shard, on_epoch = self.submitted.pop()
            options = self.device, self.precision, on_epoch, self.engine, self.folder.keep_failed
            choice = self.folder.measured().get(shard[0].program)
            with contextlib.nullcontext() if choice is None else using_threads(choice["threads"]):
                result = train_shard(self.recipe, shard, *options)
            yield shard, result


def train_shard(
    recipe: Recipe,
    shard: Sequence[Cell],
    device: str,
    precision: Precision,
    on_epoch: Callable[[], None],
    engine: Engine,
    keep_failed: Callable[[Cell, bytes], None],
) -> dict[str, Any] | Failure:
    """Train a shard now; return its content for :meth:`Folder.write`, or the out-of-memory failure.

    Args:
        recipe, shard, device, precision, on_epoch: As for :func:`fleet.train`.
        engine: ``"fleet"`` or ``"solo"``.
        keep_failed: Called with the last finite parameters and buffers of each failed cell, as the bytes of a
            safetensors file, if safetensors is installed.
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
            from safetensors.torch import save

            learners = trained.learners
            for i in trained.failures:
                state = [*learners[i].named_parameters(), *learners[i].named_buffers()]
                keep_failed(shard[i], save({name: t.detach().cpu().contiguous().clone() for name, t in state}))
            del learners, state
        del trained
    except (RuntimeError, MemoryError) as e:
        if not out_of_memory(e):
            raise
        result = Failure.OUT_OF_MEMORY
    release(device)  # after the except clause, whose traceback holds the models
    return result


def row(cell: Cell, metrics: Mapping[str, float], error: str | None = None) -> dict[str, Any]:
    """A row of ``results.csv``. It contains no times, so that a continued run ends with identical bytes.

    Args:
        cell: The trained cell.
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
