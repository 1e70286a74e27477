"""The fleet: many small models trained at once on one device, each as if it were alone."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from synib import keys
from synib.data import Dataset, Split
from synib.engines.adam import Adam
from synib.engines.cells import Cell, Learner, Recipe, learner
from synib.measure import accuracies, correct

Metrics = dict[str, float]
Precision = Literal["float32", "tf32", "bf16"]


@dataclass(frozen=True)
class Trained:
    """What training a shard gave, in the order of its cells.

    Args:
        metrics: For each cell, metric → value at the end of training.
        curves: For each cell, metric → value after each epoch.
        fleet: The trained parameters and buffers.
    """

    metrics: list[Metrics]
    curves: list[dict[str, list[float]]]
    fleet: "Fleet"

    @property
    def learners(self) -> list[Learner]:
        """The trained models with their methods, one module for each cell."""
        return [self.fleet.learner(i) for i in range(len(self.metrics))]


def train(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: torch.device | str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
    precision: Precision = "float32",
) -> Trained:
    """Train cells that share a program, together.

    Parameters of all models lie in one matrix, a row for each; the step is the cell's own step under
    ``torch.func.vmap``. Every draw is keyed by the cell's seed and its step, so a cell's result does not depend on its
    neighbours beyond the order in which a matrix product adds up. Nothing waits for the device before the last epoch.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: Cells of one program.
        device: Where to train.
        on_epoch: Called after each epoch.
        precision: Of matrix products in training: full, or on CUDA TensorFloat-32 or bfloat16 autocast. Evaluation is
            always in full precision.
    """
    with ThreadPoolExecutor() as pool:
        data = list(pool.map(recipe.data, cells))
    fleet = Fleet(recipe, cells, data, torch.device(device))
    training, validation = fleet.stack([d.train for d in data]), fleet.stack([d.validation for d in data])
    curves: list[dict[str, Tensor]] = []
    for epoch in range(cells[0].settings["epochs"]):
        with _precision(precision, fleet.device):
            fleet.epoch(training, epoch)
        train_now = fleet.accuracies(training, "train_accuracy")
        curves.append(train_now | fleet.accuracies(validation, "validation_accuracy"))
        on_epoch()
    history = {name: torch.stack([c[name] for c in curves], 1).tolist() for name in curves[0]}
    tests = [d.test for d in data if d.test is not None]  # a search does not look at them
    found = fleet.accuracies(fleet.stack(tests), "test_accuracy") if tests else {}
    tested = {name: v.tolist() for name, v in found.items()}
    each = range(len(cells))
    final = [{name: h[i][-1] for name, h in history.items() if "accuracy_" not in name} for i in each]
    metrics = [final[i] | {name: v[i] for name, v in tested.items()} for i in each]
    return Trained(metrics, [{name: h[i] for name, h in history.items()} for i in each], fleet)


class Fleet:
    """Parameters, buffers and optimiser state of many models of one program, a row for each.

    Args:
        recipe: Gives each cell's model and method.
        cells: Cells of one program.
        data: The data of each.
        device: Where to train.
    """

    def __init__(self, recipe: Recipe, cells: Sequence[Cell], data: Sequence[Dataset], device: torch.device) -> None:
        self.device = device
        self.batch_size: int = cells[0].settings["batch_size"]
        seeds = list(dict.fromkeys(cell.seed for cell in cells))
        # Initial weights depend on the program and the seed alone: one model for each seed will do.
        first = {seed: next(i for i, cell in enumerate(cells) if cell.seed == seed) for seed in seeds}
        of_seed = {seed: learner(recipe, cells[i], data[i]) for seed, i in first.items()}
        self.template = of_seed[seeds[0]]
        self.shapes = {name: p.shape for name, p in self.template.named_parameters()}
        flat = torch.stack([torch.cat([p.detach().reshape(-1) for p in of_seed[s].parameters()]) for s in seeds])
        self.parameters = flat.to(device)[torch.tensor([seeds.index(cell.seed) for cell in cells], device=device)]
        own = [
            dict(learner(recipe, cell, d, model=of_seed[cell.seed].model).named_buffers())
            for cell, d in zip(cells, data, strict=True)
        ]
        self.buffers = {name: torch.stack([b[name] for b in own]).to(device) for name in own[0]}
        self.seeds = torch.stack([keys.key(cell.seed) for cell in cells]).to(device)
        self.steps = 0
        self.adam = Adam(
            self.parameters,
            torch.tensor([cell.settings["lr"] for cell in cells], device=device),
            torch.tensor([cell.settings["weight_decay"] for cell in cells], device=device),
        )
        self.gradient = vmap(grad(self._loss, has_aux=True), randomness="error")
        self.predict = vmap(self._predict, randomness="error")
        self.permute = vmap(keys.permutation, in_dims=(0, None))

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

    def accuracies(self, split: Split, name: str, rows: int = 512) -> dict[str, Tensor]:
        """Accuracy of every cell, overall and for each group; a few rows at a time, since test sets are large."""
        self.template.eval()
        family = self.template.method.family
        hits = []
        with torch.no_grad():
            for start in range(0, split.target.shape[1], rows):
                part = slice(start, start + rows)
                seen = {modality: x[:, part] for modality, x in split.modalities.items()}
                prediction = self.predict(self.parameters, self.buffers, seen)
                target = split.target[:, part]
                hits.append(correct(family, prediction.flatten(0, 1), target.flatten(0, 1)).view(target.shape))
            return accuracies(torch.cat(hits, 1), split.groups, name)

    def learner(self, i: int) -> Learner:
        """The model and method of cell ``i`` as a module of its own, on the CPU."""
        one = copy.deepcopy(self.template)
        state = self._unflatten(self.parameters[i].cpu()) | {name: b[i].cpu() for name, b in self.buffers.items()}
        with torch.no_grad():
            for name, tensor in [*one.named_parameters(), *one.named_buffers()]:
                tensor.copy_(state[name])
        return one

    def _unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        pieces = flat.split([shape.numel() for shape in self.shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def _loss(self, flat: Tensor, buffers: Mapping[str, Tensor], *batch: Any) -> Any:
        return functional_call(self.template, {**self._unflatten(flat), **buffers}, batch)

    def _predict(self, flat: Tensor, buffers: Mapping[str, Tensor], modalities: Mapping[str, Tensor]) -> Any:
        state = {**self._unflatten(flat), **buffers}
        mine = {k.removeprefix("model."): v for k, v in state.items() if k.startswith("model.")}
        return functional_call(self.template.model, mine, (modalities,))


@contextlib.contextmanager
def _precision(precision: Precision, device: torch.device) -> Iterator[None]:
    """Matrix products of this precision, inside the context only."""
    if precision == "bf16":
        with torch.autocast(device.type, dtype=torch.bfloat16):
            yield
    elif precision == "tf32":
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
    else:
        yield
