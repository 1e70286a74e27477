"""Cells to train, the recipe of their data, model and method, and the learner built from it."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from synib.data import Dataset, Split
from synib.keys.generators import seeded_generators
from synib.masks import LearnedMask
from synib.measure.ntk import Parameters, Predict
from synib.methods import AGM, MCR, OGM, Experts, MMPareto, OnLatents, UnimodalModel
from synib.methods.hooks import AddsModules
from synib.models import Dropout, FusionModel
from synib.objective import Objective, SynIB
from synib.tokens import take

Plain = str | int | float | bool | None | Sequence[Any]

# Settings that may differ between models that are trained together, besides their data and seed.
VARYING = ("lr", "weight_decay", "weight", "sparsity")
NEEDED = ("lr", "weight_decay", "epochs", "batch_size")  # settings of every cell
# What a step costs, in steps of plain fusion (``benchmarks/method_cost.py`` measures it); others cost about 1.
COSTS: dict[type[Objective], float] = {UnimodalModel: 0.5, OGM: 1.5, MMPareto: 2.0, AGM: 2.2, MCR: 2.7}


@dataclass(frozen=True)
class Cell:
    """One model to train.

    Args:
        experiment: Name of the experiment.
        method: Name of the method.
        factors: The factors of the experiment (β, a mixture, a fold); they determine the data.
        settings: Training settings: ``lr``, ``weight_decay``, ``epochs``, ``batch_size``, and those of the method.
        seed: Determines data, initial weights, batch order and all other random draws.
    """

    experiment: str
    method: str
    factors: Mapping[str, Plain] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def id(self) -> str:
        """A hash of everything that determines the result."""
        return digest(asdict(self))

    @cached_property
    def program(self) -> str:
        """A hash of everything that must be equal for cells to be trained together."""
        static = {k: v for k, v in self.settings.items() if k not in VARYING}
        return digest([self.experiment, self.method, static])


def check_settings(cell: Cell) -> None:
    """Raise ``ValueError`` if a cell lacks a required training setting."""
    missing = [name for name in NEEDED if name not in cell.settings]
    if missing:
        raise ValueError(
            f"The settings of a cell must contain {', '.join(missing)}; it has {', '.join(cell.settings) or 'none'}."
        )


def programs(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells of each program, in their given order."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.program, []).append(cell)
    return list(groups.values())


def grouped(cells: Sequence[Cell], size: Callable[[Sequence[Cell]], int]) -> list[list[Cell]]:
    """Group cells into shards of one program each.

    Args:
        cells: The cells to group.
        size: Function from the cells of a program to the maximum size of its shards.
    """
    # Neighbours with the same learning rate and weight decay are updated in one call of the optimiser.
    by_program = (
        sorted(same, key=lambda cell: (cell.settings["lr"], cell.settings["weight_decay"])) for same in programs(cells)
    )
    return [shard for same in by_program for shard in cut(same, size(same))]


def cut(cells: Sequence[Cell], size: int) -> list[list[Cell]]:
    """The cells in chunks of at most ``size``, as few and as equal in size as possible."""
    pieces = -(-len(cells) // size)
    ends = [-(-len(cells) * i // pieces) for i in range(pieces + 1)]
    return [list(cells[a:b]) for a, b in pairwise(ends)]


def digest(value: Any) -> str:
    """A short hash of plain values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Learner(nn.Module):
    """A model and its training method, as one module with one set of parameters and buffers."""

    def __init__(self, model: FusionModel, method: Objective) -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a function to this learner while ``functional_call`` has substituted its values."""
        return function(self, *arguments)


class Recipe(Protocol):
    """What an engine needs to train a cell; experiments implement it.

    Attributes:
        curves: Whether to measure accuracies after every epoch instead of only at the end.
    """

    curves: ClassVar[bool]

    def data(self, cell: Cell) -> Dataset:
        """The cell's data."""

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        """A newly initialised model; the engine has seeded torch's generator."""

    def method(self, cell: Cell, data: Dataset) -> Objective:
        """The cell's method, which must not depend on the optimiser's settings, ``lr`` and ``weight_decay``."""


@runtime_checkable
class Watching(Protocol):
    """A recipe that records further metrics after every epoch, if ``curves`` is set."""

    def watch(self, predict: Predict, parameters: Parameters, train: Split, validation: Split) -> dict[str, Tensor]:
        """Metrics of the current model by name; runs under ``vmap``."""


@runtime_checkable
class Examining(Protocol):
    """A recipe that measures further metrics of a trained model."""

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Metrics of a model after training by name, for its row of results; the model is on the CPU."""


def prepared(method: Objective, model: FusionModel, data: Dataset) -> Learner:
    """A learner ready for training: the method's buffers and modules exist before the optimiser is created."""
    method.prepare(model, {name: take(x, slice(0, 2)) for name, x in data.train.modalities.items()})
    if isinstance(method, AddsModules):
        method.attach(model)
    return Learner(model, method)


def learner(
    recipe: Recipe, cell: Cell, data: Dataset, model: FusionModel | None = None, *, keyed_dropout: bool = True
) -> Learner:
    """The learner of a cell. Initial weights depend on the seed alone, so all methods start from the same ones.

    Args:
        recipe: Provides the model and the method.
        cell: The cell.
        data: Data of the cell.
        model: A model to use instead of a new one.
        keyed_dropout: Whether dropout is drawn by keys, as training in a fleet requires, or from torch's generator.
    """
    # The CPU's generator alone: the others are the caller's, and to look for them takes longer than a small model.
    if model is None:
        with seeded_generators(cell.seed):
            model = recipe.model(cell, data)
    with seeded_generators(cell.seed):
        method = recipe.method(cell, data)
    if keyed_dropout:
        follow_keys(model)
    return prepared(method, model, data)


def follow_keys(module: nn.Module) -> list[Dropout]:
    """Make every :class:`~synib.models.Dropout` draw by its own key; return those that did not before."""
    unkeyed = [part for part in module.modules() if isinstance(part, Dropout) and part.key is None]
    for part in unkeyed:
        part.follow_key()
    return unkeyed


def check_layers(model: nn.Module) -> None:
    """Raise ``ValueError`` for layers that cannot be trained under ``vmap``."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
            hint = "use synib.models.Dropout, which draws by keys"
        elif isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats:
            hint = "use nn.GroupNorm or nn.LayerNorm"
        else:
            continue
        raise ValueError(
            f"Models that are trained together cannot contain {type(layer).__name__} (here {name!r}): {hint}, "
            "or train one model at a time with the engine 'solo'."
        )


def cost(method: Objective) -> float:
    """The approximate cost of a step of a method, in steps of plain fusion, for progress bars."""
    if isinstance(method, Experts):
        return cost(method.synergy) + 1.0
    if isinstance(method, OnLatents):
        return cost(method.objective)
    if isinstance(method, SynIB):
        searched = 0.6 * method.mask.steps if isinstance(method.mask, LearnedMask) else 0.0
        return 1.5 + 0.1 * (method.draws or 1) + searched
    return COSTS.get(type(method), 1.0)
