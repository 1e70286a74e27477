"""What an engine must know to train a cell, and what it may be asked to note down."""

from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from synib.data import Dataset, Split
from synib.engines.cells import Cell
from synib.measure.ntk import Parameters, Predict
from synib.models import FusionModel
from synib.objective import Objective

if TYPE_CHECKING:
    from synib.engines.learner import Learner


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

    def examine(self, cell: Cell, learner: "Learner", data: Dataset) -> dict[str, float]:
        """Named numbers of a model when training is over, for its row of results; the model is on the CPU."""
