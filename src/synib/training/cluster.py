"""The cluster engine: trains the fleet's shards on the nodes of a Ray cluster. First the driver, then the workers."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from synib.training import fleet
from synib.training.cells import Cell, Recipe, grouped
from synib.training.cluster_session import Cluster, ClusterLost, Session, joined
from synib.training.device import Precision
from synib.training.folder import Folder
from synib.training.jobs import checked, describe_job, received, refusing
from synib.training.shards import Failure, Progress
from synib.training.sweep import check_cells, train_and_collect, train_shard

__all__ = ["Cluster", "ClusterLost", "Session", "describe_job", "joined", "sweep"]

AHEAD = 2  # shards submitted for each that the cluster can train at once
TRAIN = f"{__name__}:train"
MEASURE = f"{__name__}:measure"


def sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    session: Session,
    *,
    loader: str,
    config: Mapping[str, Any],
    device: str,
    precision: Precision = "float32",
    together: int | None = None,
    on_progress: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train all unfinished cells on the nodes of the cluster, then collect the tables.

    The shards are those of the fleet, and each is written when it is returned, so that either engine can continue an
    interrupted run. A shard whose node is lost is trained again on another one; a shard that runs out of memory is
    halved.

    Args:
        recipe: Provides each cell's data, model and method in this process; workers construct their own.
        cells: The models to train.
        folder: Folder for the results.
        session: The cluster.
        loader: The function that constructs the recipe on a worker, as ``"module:function"``.
        config: Its argument: plain values.
        device: Device of the workers, as returned by :meth:`Session.place`.
        precision: Precision of matrix products in training.
        together: Number of models to train at once; by default as many as fit into the memory of a worker.
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.

    Raises:
        ClusterLost: If the cluster ends before the run does.
    """
    check_cells(cells, "cluster")
    job = describe_job(loader, config, device, precision)

    def size(same: Sequence[Cell]) -> int:
        if together or device != "cuda":
            return together or fleet.ON_CPU
        return _capacity(session, job, same[: fleet.PROBED])

    workers = _Nodes(session, job, folder, say)
    train_and_collect(recipe, cells, folder, workers, lambda: grouped(cells, size), on_progress, say)


class _Nodes:
    """Trains shards on the nodes of a cluster."""

    tries = 3
    in_order = False
    memory_of = "a worker"

    def __init__(self, session: Session, job: str, folder: Folder, say: Callable[[str], None]) -> None:
        self.session = session
        self.job = job
        self.folder = folder
        self.say = say
        self.submitted: dict[int, list[Cell]] = {}
        self.had_slots = True

    def room(self) -> int:
        slots = self.session.slots()
        if self.had_slots and not slots:
            self.say(
                "No node of the cluster has enough free resources for a shard; waiting for one. Press Ctrl-C to "
                "end the run."
            )
        self.had_slots = bool(slots)
        return AHEAD * slots - len(self.submitted)

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None], halvings: int) -> None:
        ids = [cell.id for cell in shard]
        session = self.session
        self.submitted[session.submit(TRAIN, self.job, ids, session.cluster.cpus_per_shard, session.gpus)] = shard

    def results(self) -> Iterator[tuple[list[Cell], dict[str, Any] | Failure]]:
        for ticket, answer in self.session.results():
            shard = self.submitted.pop(ticket)
            if isinstance(answer, Failure):
                yield shard, answer
            elif checked(answer).get("out_of_memory"):
                yield shard, Failure.OUT_OF_MEMORY
            else:
                for cell in shard:
                    if cell.id in answer["failed_states"]:
                        self.folder.keep_failed(cell, answer["failed_states"][cell.id])
                yield shard, answer["content"]


def _capacity(session: Session, job: str, cells: Sequence[Cell]) -> int:
    """The number of such models that fit into the memory of a worker, measured there."""
    session.submit(MEASURE, job, [cell.id for cell in cells], session.gpus)
    while not (finished := session.results()):
        pass
    ((_, answer),) = finished
    if isinstance(answer, Failure):
        raise ValueError(
            f"A worker could not measure how many {cells[0].method} models fit into its memory "
            f"({answer.value}): run again, or set the number of models to train together."
        )
    return int(checked(answer)["number"])


@refusing
def train(job: str, ids: Sequence[str], threads: int, gpus: float) -> dict[str, Any]:
    """Train a shard; the answer contains its ``content``, and the states of failed models as bytes of safetensors files."""
    recipe, shard, device, precision = _received(job, ids, gpus)
    states: dict[str, bytes] = {}

    def keep_failed(cell: Cell, state: bytes) -> None:
        states[cell.id] = state

    torch.set_num_threads(threads)
    result = train_shard(recipe, shard, device, precision, lambda: None, "fleet", keep_failed)
    return {"out_of_memory": True} if isinstance(result, Failure) else {"content": result, "failed_states": states}


@refusing
def measure(job: str, ids: Sequence[str], gpus: float) -> dict[str, Any]:
    """Measure how many such models fit into this worker's share of the device; the answer contains their ``number``."""
    return {"number": max(1, int(min(1.0, gpus) * fleet.capacity(*_received(job, ids, gpus))))}


def _received(job: str, ids: Sequence[str], gpus: float) -> tuple[Recipe, list[Cell], str, Precision]:
    """The recipe, cells, device and precision of a job, after checking that this worker can run it."""
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise ValueError(
            "This Ray cluster has no authentication: anyone who can reach it can run code on it. Start its "
            "nodes with RAY_AUTH_MODE=token and a token, then join it again."
        )
    recipe, cells, device, precision = received(job, ids)
    if device == "cuda" and gpus < 1:  # shards on the same GPU have their own part of its memory
        torch.cuda.set_per_process_memory_fraction(gpus)
    return recipe, cells, device, precision
