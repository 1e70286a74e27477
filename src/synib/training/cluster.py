"""The cluster: the fleet's shards, spread over the nodes of a Ray cluster."""

import importlib
import json
import os
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

import synib
from synib.training import fleet
from synib.training.cells import Cell, cut, digest, grouped
from synib.training.cluster_session import Cluster, Session, joined
from synib.training.device import Precision
from synib.training.folder import Folder
from synib.training.learner import Recipe
from synib.training.sweep import Progress, begun, check_cells, costs_of, ended, train_shard

__all__ = ["Cluster", "Session", "joined", "order_of", "sweep"]

AHEAD = 2  # shards in the cluster's hands for each that it can train at once
CRASHES = 3  # times that a shard may end its process before it is blamed


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
    on_progress: Progress = lambda done, of: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train the cells that are not finished yet on the cluster's nodes, then collect the tables.

    It trains the fleet's shards and writes each as it comes back, so that a run that ends early goes on where it stopped.
    A shard whose node is lost is trained again on another; one that did not fit into memory is halved.

    Args:
        recipe: Gives each cell's data, model and method, here; workers make their own.
        cells: What to train.
        folder: Where results go.
        session: The cluster.
        loader: Who makes the recipe on a worker, as ``"module:function"``.
        config: From what: plain values.
        device: Where workers train, as :meth:`Session.place` said.
        precision: Of matrix products in training.
        together: How many models to train at once; by default as many as the memory of a worker holds.
        on_progress: Called with the work done and the work there is, in epochs of a vanilla model.
        say: Called with what the user should know.
    """
    check_cells(cells, "cluster")
    order = order_of(loader, config, device, precision)

    def size(same: Sequence[Cell]) -> int:
        if together or device != "cuda":
            return together or fleet.ON_CPU
        few = [cell.id for cell in same[: fleet.PROBED]]  # measured where they will be trained, and not here
        return int(_answer(session.ray.get(session.start(_measure, order, few, session.gpus))))

    with folder.locked(say):
        shards = begun(folder, cells, lambda: grouped(cells, size), say)
        _Driver(session, order, folder, costs_of(recipe, cells), on_progress, say).run(shards)
        ended(folder, cells, say)


class _Driver:
    """Hands out shards, a few more than can be trained at once, and keeps what comes back."""

    def __init__(
        self,
        session: Session,
        order: str,
        folder: Folder,
        costs: Mapping[str, float],
        on_progress: Progress,
        say: Callable[[str], None],
    ) -> None:
        self.session = session
        self.order = order
        self.folder = folder
        self.costs = costs
        self.on_progress = on_progress
        self.say = say
        self.waiting: deque[list[Cell]] = deque()
        self.away: dict[Any, list[Cell]] = {}
        self.crashes: Counter[str] = Counter()
        self.halvings = 0

    def run(self, shards: Sequence[list[Cell]]) -> None:
        """Have every shard trained that is not finished.

        When this ends early, what is away goes on until the session ends, which ends it: to cancel a task that comes back at
        this moment can end the driver's own process (seen in Ray 2.60).
        """
        self.total = sum(map(self._work, shards))
        self.waiting.extend(shard for shard in shards if not self.folder.finished(shard))
        self.done = self.total - sum(map(self._work, self.waiting))
        self.on_progress(self.done, self.total)
        idle = False
        while self.waiting or self.away:
            room = AHEAD * self.session.slots()
            if not room and not idle:
                self.say("No node of the cluster has room for a shard any more; waiting for one. Ctrl-C ends the run.")
            idle = not room
            while self.waiting and len(self.away) < room:
                self._send(self.waiting.popleft())
            for reference in self.session.ready(list(self.away)):
                self._receive(reference)

    def _work(self, shard: Sequence[Cell]) -> float:
        """What training a shard takes, in epochs of a vanilla model."""
        return self.costs[shard[0].program] * len(shard) * float(shard[0].settings["epochs"])

    def _send(self, shard: list[Cell]) -> None:
        ids = [cell.id for cell in shard]
        session = self.session
        self.away[session.start(_train, self.order, ids, session.cluster.cpus_per_shard, session.gpus)] = shard

    def _receive(self, reference: Any) -> None:
        shard = self.away.pop(reference)
        fate, content = _fate(self.session, reference)
        if fate == "lost":
            self.say(f"A node was lost with {len(shard)} models; they are trained again on another.")
            self.waiting.appendleft(shard)
        elif fate == "crashed":
            self._blame(shard)
            self.say(f"The process that trained {len(shard)} models ended; they are trained again.")
            self.waiting.appendleft(shard)
        elif content is None:
            self._halve(shard)
        else:
            _keep_failed(self.folder, shard, content.pop("failed"))
            content["timing"]["halvings"] = self.halvings
            self.folder.write(shard, content)
            self.done += self._work(shard)
            self.on_progress(self.done, self.total)

    def _blame(self, shard: Sequence[Cell]) -> None:
        """Count how often a shard's process ended, and stop where it cannot be chance."""
        key = digest([cell.id for cell in shard])
        self.crashes[key] += 1
        if self.crashes[key] >= CRASHES:
            raise ValueError(
                f"Training {len(shard)} {shard[0].method} models ended its process {CRASHES} times, as systems do where "
                "memory is short; try --together with fewer. What is finished is kept."
            )

    def _halve(self, shard: list[Cell]) -> None:
        """Halve a shard that did not fit, and those of its program that wait and are as large."""
        if len(shard) == 1:
            raise ValueError(
                f"One {shard[0].method} model alone does not fit into the memory of a worker; use a smaller model or "
                "batch_size, or nodes with more memory."
            )
        halves: list[list[Cell]] = []
        others: list[list[Cell]] = []
        for one in (shard, *self.waiting):
            if one[0].program == shard[0].program and len(one) >= len(shard):
                halves += cut(one, -(-len(one) // 2))
            else:
                others.append(one)
        self.halvings += 1
        self.waiting = deque([*self.folder.regroup(halves), *others])
        self.say(
            f"Out of memory with {len(shard)} models at once on a worker; shards of that size are halved and training goes "
            "on. What is finished is kept."
        )


def _fate(session: Session, reference: Any) -> tuple[str, Any]:
    """What became of a shard: it is ``back`` with its content (``None``: out of memory), ``lost`` or ``crashed``."""
    errors = session.ray.exceptions
    try:
        return "back", _answer(session.ray.get(reference))
    except errors.OutOfMemoryError:  # of the node: Ray ends a process before the system does
        return "back", None
    except (errors.NodeDiedError, errors.ObjectLostError, errors.LocalRayletDiedError):
        return "lost", None
    except errors.WorkerCrashedError:
        return "crashed", None


def _keep_failed(folder: Folder, shard: Sequence[Cell], failed: Mapping[str, bytes]) -> None:
    """Keep the last good states of models that failed, which came as the bytes of safetensors files."""
    for cell in shard:
        if cell.id in failed:
            from safetensors.torch import load

            folder.keep_failed(cell, load(failed[cell.id]))


def _answer(told: Mapping[str, Any]) -> Any:
    """What a worker gave back; a mistake that it found is raised here."""
    if "refused" in told:
        raise ValueError(told["refused"])
    return told["content"]


def order_of(loader: str, config: Mapping[str, Any], device: str, precision: Precision) -> str:
    """What a worker is told besides the cells' ids: plain values, from which its own installed code makes the rest."""
    return json.dumps(
        {"loader": loader, "config": config, "device": device, "precision": precision, "versions": _versions()}
    )


def _train(order: str, ids: Sequence[str], threads: int, gpus: float) -> dict[str, Any]:
    """On a worker: train a shard."""

    def train(recipe: Recipe, shard: list[Cell], device: str, precision: Precision) -> dict[str, Any] | None:
        failed: dict[str, bytes] = {}

        def keep(cell: Cell, state: Mapping[str, torch.Tensor]) -> None:
            from safetensors.torch import save

            failed[cell.id] = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()})

        torch.set_num_threads(threads)
        content = train_shard(recipe, shard, device, precision, lambda: None, "fleet", keep)
        return None if content is None else {**content, "failed": failed}

    return _on_worker(order, ids, gpus, train)


def _measure(order: str, ids: Sequence[str], gpus: float) -> dict[str, Any]:
    """On a worker: how many models like these fit into its part of the device."""

    def measure(recipe: Recipe, few: list[Cell], device: str, precision: Precision) -> int:
        return max(1, int(min(1.0, gpus) * fleet.capacity(recipe, few, device, precision)))

    return _on_worker(order, ids, gpus, measure)


def _on_worker(order: str, ids: Sequence[str], gpus: float, do: Callable[..., Any]) -> dict[str, Any]:
    told = json.loads(order)
    try:
        _check_worker(told["versions"])
        recipe, cells = _prepared(told["loader"], json.dumps(told["config"]))
        if not cells.keys() >= set(ids):
            raise ValueError(
                f"The node {os.uname().nodename} makes other cells of this experiment than the driver; install the same synib "
                "on all nodes."
            )
        if told["device"] == "cuda" and gpus < 1:  # neighbours on the same device have their own part of its memory
            torch.cuda.set_per_process_memory_fraction(gpus)
        return {"content": do(recipe, [cells[i] for i in ids], told["device"], told["precision"])}
    except ValueError as e:
        return {"refused": str(e)}


@lru_cache(maxsize=1)
def _prepared(loader: str, config: str) -> tuple[Recipe, dict[str, Cell]]:
    """The recipe and its cells, made once for all shards that a worker trains."""
    module, _, function = loader.partition(":")
    recipe = getattr(importlib.import_module(module), function)(json.loads(config))
    return recipe, {cell.id: cell for cell in recipe.cells()}


def _check_worker(versions: Mapping[str, str]) -> None:
    """Refuse to train with other versions than the driver's, or in a cluster that lets anybody in."""
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise ValueError(
            "This Ray cluster lets in whoever reaches it; start its nodes with RAY_AUTH_MODE=token and a token, and join it "
            "again."
        )
    mine = _versions()
    if mine != versions:
        said = [", ".join(f"{name} {version}" for name, version in v.items()) for v in (mine, versions)]
        raise ValueError(
            f"The node {os.uname().nodename} has {said[0]}, and the driver {said[1]}; install the same on all nodes."
        )


def _versions() -> dict[str, str]:
    return {"synib": synib.__version__, "torch": torch.__version__}
