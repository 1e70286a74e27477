"""Train all shards of a run: halve those that do not fit into memory, retry those that were lost, collect the tables."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import torch

import synib
from synib.training import fleet, solo
from synib.training.cells import Cell, Recipe, cost, cut, digest, grouped, programs
from synib.training.device import Precision, device_name, out_of_memory, release
from synib.training.folder import Folder

Engine = Literal["fleet", "solo", "cluster"]
Progress = Callable[[float, float], None]

ATTEMPTS = 3  # times that a shard may end its process


class Failure(Enum):
    """Why a shard was returned without a result."""

    OUT_OF_MEMORY = "out of memory"
    NODE_LOST = "node lost"
    PROCESS_ENDED = "process ended"


class Workers(Protocol):
    """What trains shards: this process, or the nodes of a cluster."""

    @property
    def memory_of(self) -> str:
        """Description of the memory that a shard has to fit into."""

    def room(self) -> int:
        """The number of shards that can be submitted now."""

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None]) -> None:
        """Accept a shard for training; ``on_epoch`` is called after each epoch if the workers can report it."""

    def results(self) -> Iterable[tuple[list[Cell], dict[str, Any] | Failure]]:
        """Returned shards, each with its content for :meth:`Folder.write` or with its failure."""


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
            (:func:`fleet.capacity`). A continued run keeps its original shards.
        engine: ``"fleet"``, or ``"solo"`` for one model at a time with Lightning (:func:`solo.train`).
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.
    """
    check_cells(cells, engine)

    def propose() -> list[list[Cell]]:
        return shards_of(recipe, cells, device, precision, together, engine)

    workers = _ThisProcess(recipe, device, precision, engine, folder.keep_failed)
    train_and_collect(recipe, cells, folder, workers, propose, on_progress, say)


def shards_of(
    recipe: Recipe, cells: Sequence[Cell], device: str, precision: Precision, together: int | None, engine: Engine
) -> list[list[Cell]]:
    """The cells in shards, as :func:`sweep` would train them; the arguments are the same."""
    if engine == "solo":  # each model is written as soon as it is trained
        return [[cell] for cell in cells]
    return grouped(cells, lambda same: together or fleet.capacity(recipe, same, device, precision))


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

    recipe: Recipe
    device: str
    precision: Precision
    engine: Engine
    keep_failed: Callable[[Cell, bytes], None]
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


@dataclass
class ShardTraining:
    """Trains every unfinished shard, and writes each to the folder as soon as it is returned.

    A shard that runs out of memory is halved, together with the waiting shards of its program of the same size. A shard
    whose node is lost is trained again as often as needed; one whose process ended, up to three times.

    Args:
        folder: Folder for the results.
        workers: What trains the shards.
        costs: Program → cost of an epoch of one model, in epochs of a vanilla model.
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.
    """

    folder: Folder
    workers: Workers
    costs: Mapping[str, float]
    on_progress: Progress
    say: Callable[[str], None]
    waiting: deque[list[Cell]] = field(default_factory=deque, init=False)
    ended_processes: Counter[str] = field(default_factory=Counter, init=False)
    halvings: int = field(default=0, init=False)
    done: float = field(default=0.0, init=False)
    total: float = field(default=0.0, init=False)

    def run(self, shards: Sequence[list[Cell]]) -> None:
        """Train all shards of a run; finished ones are skipped."""
        self.waiting = deque(self.folder.unfinished(shards, self.say))
        self.total = sum(map(self._work, shards))
        self.done = self.total - sum(map(self._work, self.waiting))
        self.on_progress(self.done, self.total)
        in_training = 0
        while self.waiting or in_training:
            while self.waiting and self.workers.room() > 0:
                shard = self.waiting.popleft()
                self.workers.submit(shard, self._epoch_counter(shard))
                in_training += 1
            for shard, result in self.workers.results():
                in_training -= 1
                if result is Failure.OUT_OF_MEMORY:
                    self._halve(shard)
                elif isinstance(result, Failure):
                    self._retry(shard, result)
                else:
                    result["timing"]["halvings"] = self.halvings  # in this process
                    self.folder.write(shard, result)
                    self.done += self._work(shard)
                self.on_progress(self.done, self.total)

    def _work(self, shard: Sequence[Cell]) -> float:
        """The cost of training a shard, in epochs of a vanilla model."""
        return self.costs[shard[0].program] * len(shard) * float(shard[0].settings["epochs"])

    def _epoch_counter(self, shard: Sequence[Cell]) -> Callable[[], None]:
        """Reports the progress within a shard each time it is called."""
        done, epoch = self.done, self._work(shard) / shard[0].settings["epochs"]

        def on_epoch() -> None:
            nonlocal done
            done += epoch
            self.on_progress(done, self.total)

        return on_epoch

    def _retry(self, shard: list[Cell], failure: Failure) -> None:
        if failure is Failure.NODE_LOST:
            self.say(f"A node was lost while training {len(shard)} models; they are trained again on another node.")
        else:
            key = digest([cell.id for cell in shard])
            self.ended_processes[key] += 1
            if self.ended_processes[key] == ATTEMPTS:
                raise ValueError(
                    f"The process that trains {len(shard)} {shard[0].method} models ended {ATTEMPTS} times, as happens "
                    "when the system runs out of memory: train fewer models together. Finished models are kept."
                )
            self.say(f"The process that trained {len(shard)} models ended; they are trained again.")
        self.waiting.appendleft(shard)

    def _halve(self, shard: list[Cell]) -> None:
        """Halve a shard that did not fit, and the waiting shards of its program of the same size."""
        if len(shard) == 1:
            raise ValueError(
                f"A single {shard[0].method} model does not fit into the memory of {self.workers.memory_of}: use a "
                "smaller model or batch_size, or a device with more memory."
            )
        halves: list[list[Cell]] = []
        others: list[list[Cell]] = []
        for candidate in (shard, *self.waiting):
            if candidate[0].program == shard[0].program and len(candidate) >= len(shard):
                halves += cut(candidate, -(-len(candidate) // 2))
            else:
                others.append(candidate)
        self.waiting = deque([*self.folder.regroup(halves), *others])
        self.halvings += 1
        self.say(
            f"Out of memory with {len(shard)} models at once on {self.workers.memory_of}: shards of that size "
            "are halved and training continues. Finished models are kept."
        )
