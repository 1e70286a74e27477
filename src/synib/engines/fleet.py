"""The fleet: many small models trained at once on one device, each as if it were alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from synib import keys
from synib.data import Split
from synib.engines.adam import Adam
from synib.engines.cells import Cell, Learner, Recipe, learner
from synib.measure import accuracies, correct

Metrics = dict[str, float]


@dataclass(frozen=True)
class Trained:
    """What training a shard gave, in the order of its cells.

    Args:
        metrics: For each cell, metric → value at the end of training.
        curves: For each cell, metric → value after each epoch.
        learners: The trained models with their methods.
    """

    metrics: list[Metrics]
    curves: list[dict[str, list[float]]]
    learners: list[Learner]


def train(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: torch.device | str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
) -> Trained:
    """Train cells that share a program, together.

    Parameters of all models lie in one matrix, a row for each; the step is the cell's own step under
    ``torch.func.vmap``. Every draw is keyed by the cell's seed and its step, so a cell's result does not depend on its
    neighbours beyond the order in which a matrix product adds up.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: Cells of one program.
        device: Where to train.
        on_epoch: Called after each epoch.
    """
    data = [recipe.data(cell) for cell in cells]
    learners = [learner(recipe, cell, d) for cell, d in zip(cells, data, strict=True)]
    fleet = _Fleet(learners, [cell.seed for cell in cells], cells[0].settings, torch.device(device))
    fleet.optimiser(cells)
    train_split, validation = fleet.stack([d.train for d in data]), fleet.stack([d.validation for d in data])
    curves: list[dict[str, Tensor]] = []
    for epoch in range(cells[0].settings["epochs"]):
        fleet.epoch(train_split, epoch)
        curves.append(
            fleet.accuracies(train_split, "train_accuracy") | fleet.accuracies(validation, "validation_accuracy")
        )
        on_epoch()
    history = {name: torch.stack([c[name] for c in curves], 1).tolist() for name in curves[0]}
    fleet.write_back()
    metrics = []
    for i, (one, d) in enumerate(zip(learners, data, strict=True)):
        final = {name: values[i][-1] for name, values in history.items() if "accuracy_" not in name}
        metrics.append(final | _test(one, d.test, torch.device(device)))
    return Trained(
        metrics, [{name: values[i] for name, values in history.items()} for i in range(len(cells))], learners
    )


class _Fleet:
    def __init__(
        self, learners: Sequence[Learner], seeds: Sequence[int], settings: Mapping[str, Any], device: torch.device
    ):
        self.learners, self.device = learners, device
        self.template = learners[0]
        self.batch_size: int = settings["batch_size"]
        self.shapes = {name: p.shape for name, p in self.template.named_parameters()}
        self.parameters = torch.stack(
            [torch.cat([p.detach().reshape(-1) for p in one.parameters()]) for one in learners]
        ).to(device)
        self.buffers = {
            name: torch.stack([dict(one.named_buffers())[name] for one in learners]).to(device)
            for name, _ in self.template.named_buffers()
        }
        self.seeds = torch.stack([keys.key(seed) for seed in seeds]).to(device)
        self.steps = 0
        self.gradient = vmap(grad(self._loss, has_aux=True), randomness="error")
        self.predict = vmap(self._predict, randomness="error")
        self.permute = vmap(lambda key, n: keys.permutation(key, n), in_dims=(0, None))

    def optimiser(self, cells: Sequence[Cell]) -> None:
        self.adam = Adam(
            self.parameters,
            torch.tensor([c.settings["lr"] for c in cells], device=self.device),
            torch.tensor([c.settings["weight_decay"] for c in cells], device=self.device),
        )

    def stack(self, splits: Sequence[Split]) -> Split:
        """The same split of all cells, as tensors with the cells in front."""
        sizes = {len(split) for split in splits}
        if len(sizes) > 1:
            raise ValueError(f"Cells trained together need splits of one size; got {sorted(sizes)} examples.")
        first = splits[0]
        return Split(
            {name: torch.stack([s.modalities[name] for s in splits]).to(self.device) for name in first.modalities},
            torch.stack([s.target for s in splits]).to(self.device),
            {name: torch.stack([s.groups[name] for s in splits]).to(self.device) for name in first.groups},
        )

    def epoch(self, split: Split, epoch: int) -> None:
        """One pass over the training examples, in each cell's own order; the last, smaller batch counts too."""
        n = split.target.shape[1]
        order = self.permute(keys.fold(self.seeds, "order", epoch), n)
        cell = torch.arange(len(order), device=self.device)[:, None]
        modalities = {name: x[cell, order] for name, x in split.modalities.items()}
        target = split.target[cell, order]
        self.template.train()
        for start in range(0, n, self.batch_size):
            rows = slice(start, start + self.batch_size)
            batch = {name: x[:, rows] for name, x in modalities.items()}
            key = keys.fold(self.seeds, "step", self.steps)
            gradient, (_, self.buffers) = self.gradient(
                self.parameters, self.buffers, batch, target[:, rows], order[:, rows], key
            )
            self.adam.step(gradient)
            self.steps += 1

    def accuracies(self, split: Split, name: str) -> dict[str, Tensor]:
        """Accuracy of every cell, overall and for each group."""
        self.template.eval()
        with torch.no_grad():
            prediction = self.predict(self.parameters, self.buffers, split.modalities)
            hits = correct(self.template.method.family, prediction.flatten(0, 1), split.target.flatten(0, 1))
            return accuracies(hits.view_as(split.target), split.groups, name)

    def write_back(self) -> None:
        """Put the trained parameters and buffers into the learners."""
        parameters = self.parameters.cpu()
        buffers = {name: b.cpu() for name, b in self.buffers.items()}
        for i, one in enumerate(self.learners):
            state = self._unflatten(parameters[i]) | {name: b[i] for name, b in buffers.items()}
            with torch.no_grad():
                for name, tensor in [*one.named_parameters(), *one.named_buffers()]:
                    tensor.copy_(state[name])

    def _unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        pieces = flat.split([shape.numel() for shape in self.shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def _loss(self, flat: Tensor, buffers: Mapping[str, Tensor], *batch: Any) -> Any:
        return functional_call(self.template, {**self._unflatten(flat), **buffers}, batch)

    def _predict(self, flat: Tensor, buffers: Mapping[str, Tensor], modalities: Mapping[str, Tensor]) -> Any:
        state = {**self._unflatten(flat), **buffers}
        mine = {k.removeprefix("model."): v for k, v in state.items() if k.startswith("model.")}
        return functional_call(self.template.model, mine, (modalities,))


def _test(one: Learner, split: Split, device: torch.device) -> Metrics:
    """Accuracy on the test examples, of one cell: test sets are large and differ, so they pass one at a time."""
    model = one.model.eval().to(device)
    with torch.no_grad():
        prediction = model({name: x.to(device) for name, x in split.modalities.items()}).cpu()
    model.cpu()
    found = accuracies(correct(one.method.family, prediction, split.target), split.groups, "test_accuracy")
    return {name: value.item() for name, value in found.items()}
