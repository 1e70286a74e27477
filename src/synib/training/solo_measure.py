"""Metrics of one model after an epoch; several devices share the examples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.func import functional_call

from synib.data import Dataset, Split
from synib.measure import accuracies, correct
from synib.tokens import Modality, move
from synib.training.cells import Learner, Watching
from synib.training.solo_data import rows_of


@dataclass(frozen=True)
class Outputs:
    """What to measure and where to write it; it has no influence on training.

    Args:
        train: Whether to measure accuracy on the training data as well as their loss.
        curves: Whether to measure after every epoch instead of only at the end.
        watching: A recipe that records further metrics after every epoch.
        folder: Folder for ``metrics.csv`` and checkpoints; ``None`` to write nothing.
        ahead: Number of micro-batches that a worker prefetches.
        config: What must be equal to resume a run, for checkpoints.
        on_epoch: Called after each epoch with its index, counted from 0.
    """

    train: bool = False
    curves: bool = True
    watching: Watching | None = None
    folder: Path | None = None
    ahead: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    on_epoch: Callable[[int], None] = lambda epoch: None


def measured(
    learner: Learner, data: Dataset, outputs: Outputs, size: int, device: torch.device, rank: int = 0, world: int = 1
) -> dict[str, float]:
    """All metrics of a learner on the selected splits; the other arguments are those of :func:`accuracies_of`."""
    splits = {"train": data.train} if outputs.train else {}
    metrics: dict[str, float] = {}
    with torch.no_grad():
        for name, split in {**splits, "validation": data.validation}.items():
            metrics |= accuracies_of(learner, split, name, size, device, rank, world)
        if outputs.watching is not None:
            metrics |= watched(outputs.watching, learner, data, device)
    return metrics


def accuracies_of(
    learner: Learner, split: Split, name: str, size: int, device: torch.device, rank: int = 0, world: int = 1
) -> dict[str, float]:
    """Loss and, for class targets, accuracy; overall and for each group.

    Args:
        learner: The model and its method, in evaluation mode.
        split: The split to measure on.
        name: Name of the split, for the names of the metrics.
        size: Number of examples per batch.
        device: Device of the learner.
        rank, world: Rank of this device, and number of devices that measure together.
    """
    method, family = learner.method, learner.method.family
    of_examples = torch.zeros(2, len(split), dtype=torch.float32, device=device)
    chunks = torch.arange(len(split)).split(size)
    for turn in range(-(-len(chunks) // world)):
        mine = turn * world + rank
        rows = chunks[mine] if mine < len(chunks) else chunks[0]
        seen = {k: move(rows_of(x, rows), device) for k, x in split.modalities.items()}
        target = split.target[rows.to(split.target.device)].to(device)
        prediction = method.predict(learner.model, seen)
        if mine >= len(chunks):  # where parameters are sharded, all devices must take part
            continue
        at = rows.to(device)
        of_examples[0, at] = family.nll(prediction, target).float()
        if family.discrete:
            of_examples[1, at] = correct(family, prediction, target)
    if world > 1:
        dist.all_reduce(of_examples)
    losses, hits = of_examples.cpu()
    groups = {group: members.cpu() for group, members in split.groups.items()}
    counts = family.counts(split.target.cpu()) if family.weighs_examples else None
    measured = {f"{name}_loss": losses.mean() if counts is None else losses.sum() / counts.sum()}
    if family.discrete:
        measured |= accuracies(hits, groups, f"{name}_accuracy", None if counts is None else counts > 0)
    return {metric: float(value) for metric, value in measured.items()}


def watched(recipe: Watching, learner: Learner, data: Dataset, device: torch.device) -> dict[str, float]:
    """The metrics that a recipe records after every epoch besides accuracies."""

    def predict(changed: Mapping[str, Tensor], modalities: Mapping[str, Modality]) -> Tensor:
        def run(learner: Learner) -> Tensor:
            return learner.method.predict(learner.model, modalities)

        return cast(Tensor, functional_call(learner, dict(changed), (run,)))

    splits = [
        Split(
            {name: move(x, device) for name, x in split.modalities.items()},
            split.target.to(device),
            {name: members.to(device) for name, members in split.groups.items()},
        )
        for split in (data.train, data.validation)
    ]
    seen = recipe.watch(predict, dict(learner.named_parameters()), *splits)
    return {name: float(value) for name, value in seen.items()}
