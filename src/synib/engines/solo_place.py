"""Where a model is trained, what is measured, and what a checkpoint knows its training by."""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from synib.data import Dataset
from synib.engines.learner import Learner
from synib.engines.recipe import Watching
from synib.engines.solo_plan import Plan
from synib.tokens import take, values

LOOKED_AT = 64  # examples of each split that a checkpoint knows its data by, besides all targets


@dataclass(frozen=True)
class Place:
    """Everything that does not decide what a model becomes.

    Args:
        folder: Where checkpoints and ``metrics.csv`` go; ``None`` for nowhere.
        checkpoint_every: Updates between two checkpoints, besides one after every epoch.
        log_every: Updates between two entries in the loggers.
        ahead: Pieces of batches that a thread reads ahead.
        sharded: Whether parameters are spread over the devices.
        identity: What :func:`identity` says of the learner and its data, for checkpoints.
        products: A context for training steps, such as one that allows TensorFloat-32.
        on_epoch: Called after each epoch with its number, counted from 0.
    """

    folder: Path | None = None
    checkpoint_every: int | None = None
    log_every: int = 50
    ahead: int = 0
    sharded: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)
    products: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    on_epoch: Callable[[int], None] = lambda epoch: None


@dataclass(frozen=True)
class Wanted:
    """What to measure.

    Args:
        train: Accuracy on the training data too, and not their loss alone.
        curves: After every epoch, and not at the end only.
        test: On test data, once, at the end.
        watching: A recipe that records more after every epoch.
    """

    train: bool = False
    curves: bool = True
    test: bool = False
    watching: Watching | None = None


def config(plan: Plan, data: Dataset, world: int, place: Place) -> dict[str, Any]:
    """What must be equal for a training to go on as it began."""
    rest = {"examples": len(data.train), "devices": world, "sharded": place.sharded}
    return {**plan.config(), **rest, **place.identity}


def identity(own: Learner, data: Dataset) -> dict[str, str]:
    """What is trained, and on what: the method in words, the model's shapes, and a hash of targets and some of the inputs."""
    shapes = [(name, tuple(p.shape)) for name, p in own.model.named_parameters()]
    seen = hashlib.sha256()
    for split in (data.train, data.validation):
        seen.update(split.target.cpu().contiguous().numpy().tobytes())
        rows = torch.linspace(0, len(split) - 1, min(len(split), LOOKED_AT)).long()
        for name, x in sorted(split.modalities.items()):
            few = values(take(x, rows)).cpu()
            seen.update(f"{name} {tuple(values(x).shape)} {few.dtype}".encode() + few.contiguous().numpy().tobytes())
    model = hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]
    return {"method": " ".join(repr(own.method).split()), "model": model, "data": seen.hexdigest()[:16]}
