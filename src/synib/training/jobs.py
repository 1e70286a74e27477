"""What another process needs to train shards: plain values, from which its installed code constructs everything else."""

import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

import torch

import synib
from synib.training.cells import Cell, Recipe
from synib.training.device import Precision


def describe_job(loader: str, config: Mapping[str, Any], device: str, precision: Precision) -> str:
    """What a worker needs besides the ids of the cells.

    Args:
        loader: The function that constructs the recipe, as ``"module:function"``.
        config: Its argument: plain values.
        device: Device to train on.
        precision: Precision of matrix products in training.
    """
    return json.dumps(
        {"loader": loader, "config": config, "device": device, "precision": precision, "versions": versions()}
    )


def received(job: str, ids: Sequence[str]) -> tuple[Recipe, list[Cell], str, Precision]:
    """The recipe, cells, device and precision of a job, after checking that this installation has the same cells."""
    options = json.loads(job)
    check_versions(options["versions"])
    recipe, cells = _prepared(options["loader"], json.dumps(options["config"]))
    if not cells.keys() >= set(ids):
        raise ValueError(
            f"The node {os.uname().nodename} has other cells for this experiment than the driver: install the "
            "same version of synib on all nodes."
        )
    return recipe, [cells[i] for i in ids], options["device"], options["precision"]


def refusing(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap a function so that its ``ValueError`` becomes the answer ``refused`` with the message for the user."""

    @wraps(function)
    def answer(*arguments: Any) -> dict[str, Any]:
        try:
            return function(*arguments)
        except ValueError as e:
            return {"refused": str(e)}

    return answer


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a worker; raises the ``ValueError`` that it reports."""
    if "refused" in answer:
        raise ValueError(answer["refused"])
    return answer


def versions() -> dict[str, str]:
    """The versions that all workers must share."""
    return {"synib": synib.__version__, "torch": torch.__version__}


def check_versions(of_driver: Mapping[str, str]) -> None:
    """Raise ``ValueError`` if versions differ from the driver's."""
    own = versions()
    if own != of_driver:
        own_words, driver_words = (", ".join(f"{k} {v}" for k, v in each.items()) for each in (own, of_driver))
        raise ValueError(
            f"The node {os.uname().nodename} has {own_words}, but the driver has {driver_words}: install the "
            "same versions on all nodes."
        )


@lru_cache(maxsize=1)
def _prepared(loader: str, config: str) -> tuple[Recipe, dict[str, Cell]]:
    """The recipe and its cells by id, constructed once for all shards of a worker."""
    module, _, function = loader.partition(":")
    recipe = getattr(importlib.import_module(module), function)(json.loads(config))
    return recipe, {cell.id: cell for cell in recipe.cells()}
