"""One model in a plain PyTorch loop: what the fleet does for many, written as one would write it by hand."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from synib import keys
from synib.data import Dataset, Split
from synib.models import FusionModel
from synib.objective import Batch, Objective
from synib.tokens import take


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
    """Train a model in place, with any method; the model, and what the method brings, end in evaluation mode.

    The same seed draws the same batches, masks and noise here and in the fleet.

    Args:
        method: How a step learns.
        model: What learns. The method may add modules of its own made from it (:meth:`Objective.attach`).
        data: Training data to learn from; validation data for methods that look at them between epochs or at the end.
        lr, weight_decay: Of Adam.
        epochs, batch_size: How long, and in what pieces.
        seed: Decides every draw.
        on_epoch, on_step: Called after each epoch and each step with its number, counted from 0.

    Example:
        >>> import synib
        >>> from synib.studies.spurious_xor.data import spurious_xor
        >>> from synib.training.loop import fit
        >>> data = spurious_xor(beta=0.0, train=100, test=200)
        >>> model = synib.FusionModel.mlp(data.widths, hidden=[16], head_hidden=[])
        >>> method = synib.SynIB(synib.RandomMask(0.4), family=synib.Bernoulli(), weight=1.0)
        >>> fit(method, model, data, lr=1e-2, epochs=2, batch_size=50)
    """
    method.attach(model)
    initial = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = torch.optim.Adam([*model.parameters(), *method.parameters()], lr=lr, weight_decay=weight_decay)
    key, step = keys.key(seed), 0
    train, validation = _whole(data.train), _whole(data.validation)
    for epoch in range(epochs):
        method.begin(epoch)
        model.train()
        method.train()
        order = keys.permutation(keys.fold(key, "order", epoch), len(data.train))
        for rows in order.split(batch_size):
            batch = {name: take(x, rows) for name, x in data.train.modalities.items()}
            optimiser.zero_grad()
            method.backward(model, batch, data.train.target[rows], key=keys.fold(key, "step", step), examples=rows)
            optimiser.step()
            on_step(step)
            step += 1
        model.eval()
        method.eval()
        if epoch < epochs - 1 and method.revises(epoch):
            with torch.no_grad():
                _put(model, method.revise(model, train, validation, initial, keys.fold(key, "revise", epoch)))
        on_epoch(epoch)
    with torch.no_grad():
        method.settle(model, validation)


def _whole(split: Split) -> Batch:
    return Batch(split.modalities, split.target)


def _put(model: FusionModel, changed: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for name, value in changed.items():
        parameters[name].copy_(value)
