"""What the workers of a cluster do: train a shard, or measure how many models fit into their memory."""

import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

import synib
from synib.training import fleet
from synib.training.cells import Cell
from synib.training.device import Precision
from synib.training.learner import Recipe
from synib.training.shards import Failure
from synib.training.sweep import train_shard


def describe_job(loader: str, config: Mapping[str, Any], device: str, precision: Precision) -> str:
    """What a worker needs besides the cells' ids: plain values, from which its own installed code makes the rest."""
    return json.dumps(
        {"loader": loader, "config": config, "device": device, "precision": precision, "versions": _versions()}
    )


def train(job: str, ids: Sequence[str], threads: int, gpus: float) -> dict[str, Any]:
    """Train a shard; the answer has its ``content``, and the states of models that failed as bytes of safetensors files."""

    def run(recipe: Recipe, shard: list[Cell], device: str, precision: Precision) -> dict[str, Any]:
        states: dict[str, bytes] = {}

        def keep_failed(cell: Cell, state: Mapping[str, torch.Tensor]) -> None:
            from safetensors.torch import save

            states[cell.id] = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()})

        torch.set_num_threads(threads)
        result = train_shard(recipe, shard, device, precision, lambda: None, "fleet", keep_failed)
        return {"out_of_memory": True} if isinstance(result, Failure) else {"content": result, "failed_states": states}

    return _answer(job, ids, gpus, run)


def measure(job: str, ids: Sequence[str], gpus: float) -> dict[str, Any]:
    """Measure how many models like these fit into this worker's part of the device; the answer has their ``number``."""

    def run(recipe: Recipe, cells: list[Cell], device: str, precision: Precision) -> dict[str, Any]:
        return {"number": max(1, int(min(1.0, gpus) * fleet.capacity(recipe, cells, device, precision)))}

    return _answer(job, ids, gpus, run)


def _answer(job: str, ids: Sequence[str], gpus: float, run: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """What ``run`` returns for these cells; a ``ValueError`` is returned as ``refused``, a sentence for the user."""
    options = json.loads(job)
    try:
        _check_worker(options["versions"])
        recipe, cells = _prepared(options["loader"], json.dumps(options["config"]))
        if not cells.keys() >= set(ids):
            raise ValueError(
                f"The node {os.uname().nodename} has other cells for this experiment than the driver; install the same synib "
                "on all nodes."
            )
        if options["device"] == "cuda" and gpus < 1:  # shards on the same GPU have their own part of its memory
            torch.cuda.set_per_process_memory_fraction(gpus)
        return run(recipe, [cells[i] for i in ids], options["device"], options["precision"])
    except ValueError as e:
        return {"refused": str(e)}


@lru_cache(maxsize=1)
def _prepared(loader: str, config: str) -> tuple[Recipe, dict[str, Cell]]:
    """The recipe and its cells by id, made once for all shards that a worker trains."""
    module, _, function = loader.partition(":")
    recipe = getattr(importlib.import_module(module), function)(json.loads(config))
    return recipe, {cell.id: cell for cell in recipe.cells()}


def _check_worker(versions: Mapping[str, str]) -> None:
    """Refuse to train with other versions than the driver's, or in a cluster without authentication."""
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise ValueError(
            "This Ray cluster has no authentication: anyone who reaches it can run code there. Start its nodes with "
            "RAY_AUTH_MODE=token and a token, and join it again."
        )
    own = _versions()
    if own != versions:
        own_words, driver_words = (", ".join(f"{k} {v}" for k, v in each.items()) for each in (own, versions))
        raise ValueError(
            f"The node {os.uname().nodename} has {own_words}, but the driver has {driver_words}; install the same versions "
            "on all nodes."
        )


def _versions() -> dict[str, str]:
    return {"synib": synib.__version__, "torch": torch.__version__}
