"""A model and the method that trains it, as one module: what engines take a gradient of; and who makes them for a cell."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from synib import keys
from synib.data import Dataset, Split
from synib.measure.ntk import Parameters, Predict
from synib.models import FusionModel
from synib.objective import Batch, Objective, Parts
from synib.tokens import take
from synib.training.cells import Cell


class Learner(nn.Module):
    """A model and the method that trains it, as one module with one set of parameters and buffers."""

    def __init__(self, model: FusionModel, method: Objective) -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Whatever is to be done with the model and its method while ``functional_call`` has put other values in place."""
        return what(self, *arguments)

    def gradient(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], batch: Batch, key: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What the optimiser is given for the parameters that are trained now, and the buffers as the step leaves them."""
        trained = {name: p for name, p in parameters.items() if self.method.trains(name)}
        fixed = {name: p for name, p in parameters.items() if name not in trained}
        names: list[str] = []

        def losses(changed: Mapping[str, Tensor]) -> tuple[Tensor, tuple[Parts, dict[str, Tensor]]]:
            def run(learner: Learner) -> tuple[Tensor, tuple[Parts, dict[str, Tensor]]]:
                found, parts = learner.method.losses(learner.model, batch, key)
                names[:] = found
                return torch.stack(list(found.values())), (parts, dict(learner.named_buffers()))

            return cast(Any, functional_call(self, {**fixed, **changed, **buffers}, (run,)))

        values, pull, (parts, left) = cast(Any, torch.func.vjp(losses, trained, has_aux=True))
        each = torch.eye(len(names), dtype=values.dtype, device=values.device)
        gradients = [pull(one)[0] for one in each]
        # One loss needs no copy of its gradient, which is as large as all the models.
        stacked = {
            n: torch.stack([g[n] for g in gradients]) if len(names) > 1 else gradients[0][n][None] for n in trained
        }
        return self.method.direction(stacked, names, parts, keys.fold(key, "direction")), left


class Recipe(Protocol):
    """What an engine must know to train a cell; experiments provide it.

    Attributes:
        curves: Whether accuracies are wanted after every epoch, and not at the end only.
    """

    curves: ClassVar[bool]

    def data(self, cell: Cell) -> Dataset:
        """The cell's data."""

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        """A freshly initialised model; the engine has seeded torch's generator."""

    def method(self, cell: Cell, data: Dataset) -> Objective:
        """The cell's method."""


@runtime_checkable
class Watching(Protocol):
    """A recipe that records more than accuracies after every epoch, where ``curves`` are wanted."""

    def watch(self, predict: Predict, parameters: Parameters, train: Split, validation: Split) -> dict[str, Tensor]:
        """Named numbers of one model as it stands; it runs under ``vmap``."""


@runtime_checkable
class Examining(Protocol):
    """A recipe that wants more than accuracies of a trained model."""

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Named numbers of a model when training is over, for its row of results; the model is on the CPU."""


def learner(recipe: Recipe, cell: Cell, data: Dataset, model: FusionModel | None = None) -> Learner:
    """The learner of a cell. Weights depend on the seed alone, so all methods start from the same ones.

    Args:
        recipe: Gives the model and the method.
        cell: The cell.
        data: Its data.
        model: A model to use instead of a fresh one.
    """
    with torch.random.fork_rng(devices=[]):
        # The CPU's generator alone: the others are the caller's, and to look for them takes longer than a small model.
        torch.default_generator.manual_seed(cell.seed)
        model = recipe.model(cell, data) if model is None else model
        torch.default_generator.manual_seed(cell.seed)
        method = recipe.method(cell, data)
    # Models are stacked before their first batch: buffers that it would bring must be there already.
    method.prepare(model, {name: take(x, slice(0, 2)) for name, x in data.train.modalities.items()})
    method.attach(model)
    return Learner(model, method)
