"""Train one model in a plain PyTorch loop, equivalent to one model of the fleet."""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor

from synib import keys
from synib.data import Dataset, Split
from synib.methods.hooks import FitsAtEnd, RevisesWeights, TrainsInStages
from synib.models import FusionModel
from synib.objective import Batch, Objective
from synib.tokens import move, take
from synib.training.cells import Learner, follow_keys, prepared
from synib.training.step import backward


def fit(
    method: Objective,
    model: FusionModel,
    data: Dataset,
    *,
    lr: float,
    weight_decay: float = 0.0,
    epochs: int,
    batch_size: int,
    seed: int = 0,
    on_epoch: Callable[[int], None] = lambda epoch: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train a model in place, with any method; the model and the method's modules end in evaluation mode.

    The same seed draws the same batches, masks, noise and dropout here and in the fleet.

    Args:
        method: The training method.
        model: The model to train. The method may add modules made from its parts
            (:class:`~synib.methods.hooks.AddsModules`).
        data: Training data; validation data for methods that use them between epochs or at the end.
        lr, weight_decay: Settings of Adam.
        epochs, batch_size: Number of epochs, and examples per batch.
        seed: Determines all random draws.
        on_epoch, on_step: Called after each epoch and each step with its index, counted from 0.

    Example:
        >>> import synib
        >>> from synib.studies.spurious_xor.data import spurious_xor
        >>> from synib.training.loop import fit
        >>> data = spurious_xor(beta=0.0, train=100, test=200)
        >>> model = synib.FusionModel.mlp(data.widths, hidden=[16], head_hidden=[])
        >>> method = synib.SynIB(synib.RandomMask(0.4), family=synib.Bernoulli(), weight=1.0)
        >>> fit(method, model, data, lr=1e-2, epochs=2, batch_size=50)
    """
    learner = prepared(method, model, data)
    keyed = follow_keys(learner)
    try:
        initial = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimiser = torch.optim.Adam(
            [p for p in learner.parameters() if p.requires_grad], lr=lr, weight_decay=weight_decay
        )
        key, step, train = keys.key(seed), 0, data.train
        for epoch in range(epochs):
            learner.train()
            if isinstance(method, TrainsInStages):
                method.begin(epoch)
            order = keys.permutation(keys.fold(key, "order", epoch), len(train))
            for rows in order.split(batch_size):
                optimiser.zero_grad()
                backward(
                    method,
                    model,
                    {name: take(x, rows) for name, x in train.modalities.items()},
                    train.target[rows],
                    key=keys.fold(key, "step", step),
                    examples=rows,
                    sample_weight=None if train.sample_weight is None else train.sample_weight[rows],
                )
                optimiser.step()
                on_step(step)
                step += 1
            learner.eval()
            if isinstance(method, RevisesWeights) and epoch < epochs - 1 and method.revises(epoch):
                revise(learner, data, initial, keys.fold(key, "revise", epoch))
            on_epoch(epoch)
        if isinstance(method, FitsAtEnd):
            with torch.no_grad():
                method.settle(model, whole(data.validation))
    finally:
        for dropout in keyed:
            dropout.forget_key()


def revise(
    learner: Learner, data: Dataset, initial: Mapping[str, Tensor], key: Tensor, device: torch.device | None = None
) -> None:
    """Let a method change the model's parameters between epochs; frozen parameters do not change.

    Args:
        learner: The model and its method, which revises weights.
        data: The data available to the method.
        initial: The initial parameters of the model.
        key: Key of random draws.
        device: Device of the learner, if the data are on another one.
    """
    parameters = dict(learner.model.named_parameters())
    splits = (whole(data.train, device), whole(data.validation, device))
    with torch.no_grad():
        changed = cast(RevisesWeights, learner.method).revise(learner.model, *splits, initial, key)
        for name, value in changed.items():
            if parameters[name].requires_grad:
                parameters[name].copy_(value)


def whole(split: Split, device: torch.device | None = None) -> Batch:
    """All examples of a split as one batch, optionally moved to a device."""
    if device is None:
        return Batch(split.modalities, split.target, sample_weight=split.sample_weight)
    weight = None if split.sample_weight is None else split.sample_weight.to(device)
    seen = {name: move(x, device) for name, x in split.modalities.items()}
    return Batch(seen, split.target.to(device), sample_weight=weight)
