"""A model and the method that trains it, as one module; and who makes them for a cell."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from synib.data import Dataset, Split
from synib.measure.ntk import Parameters, Predict
from synib.methods.hooks import AddsModules
from synib.models import Dropout, FusionModel
from synib.objective import Objective
from synib.tokens import take
from synib.training.cells import Cell


class Learner(nn.Module):
    """A model and the method that trains it, as one module with one set of parameters and buffers."""

    def __init__(self, model: FusionModel, method: Objective) -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a function to this learner, while ``functional_call`` has put other values in place."""
        return function(self, *arguments)


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


def prepared(method: Objective, model: FusionModel, data: Dataset) -> Learner:
    """A learner that is ready to train: the method's buffers and modules are there before an optimiser is made."""
    method.prepare(model, {name: take(x, slice(0, 2)) for name, x in data.train.modalities.items()})
    if isinstance(method, AddsModules):
        method.attach(model)
    return Learner(model, method)


def learner(
    recipe: Recipe, cell: Cell, data: Dataset, model: FusionModel | None = None, *, keyed_dropout: bool = True
) -> Learner:
    """The learner of a cell. Weights depend on the seed alone, so all methods start from the same ones.

    Args:
        recipe: Gives the model and the method.
        cell: The cell.
        data: Its data.
        model: A model to use instead of a fresh one.
        keyed_dropout: Whether dropout draws by keys, as models that are trained together must, or from torch's generator.
    """
    with torch.random.fork_rng(devices=[]):
        # The CPU's generator alone: the others are the caller's, and to look for them takes longer than a small model.
        torch.default_generator.manual_seed(cell.seed)
        model = recipe.model(cell, data) if model is None else model
        torch.default_generator.manual_seed(cell.seed)
        method = recipe.method(cell, data)
    if keyed_dropout:
        follow_keys(model)
    return prepared(method, model, data)


def follow_keys(module: nn.Module) -> list[Dropout]:
    """Let every :class:`~synib.models.Dropout` in it draw by a key of its own; returns those that did not before."""
    unkeyed = [part for part in module.modules() if isinstance(part, Dropout) and part.key is None]
    for part in unkeyed:
        part.follow_key()
    return unkeyed


def check_layers(model: nn.Module) -> None:
    """Refuse layers that cannot be trained under ``vmap``, before it says so in its own words."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
            hint = "use synib.models.Dropout, which draws by keys"
        elif isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats:
            hint = "use nn.GroupNorm or nn.LayerNorm"
        else:
            continue
        raise ValueError(
            f"Models that are trained together cannot have {type(layer).__name__} (here {name!r}): {hint}, or train one model "
            "at a time with the engine 'solo'."
        )
