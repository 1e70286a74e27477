"""A recipe small enough to train dozens of cells in a second."""

from collections.abc import Callable
from typing import Any

import pytest

from synib import methods
from synib.data import Dataset, spurious_xor
from synib.engines import Cell
from synib.models import FusionModel
from synib.objective import Bernoulli, Objective

SIGNAL = {"x1": [0, 1, 2, 3], "x2": [0, 1, 2, 3]}
OWN: dict[str, dict[str, Any]] = {
    "unimodal": {"modality": "x1"},
    "ensemble": {},
    "vanilla": {},
    "confidence": {"weight": 2.0},
    "masked-random": {"p": 0.4},
    "masked-oracle": {"coordinates": SIGNAL},
    "synib-random": {"weight": 2.0, "p": 0.4},
    "synib-learned": {"weight": 2.0, "steps": 3, "mask_lr": 1.0, "sparsity": 0.03, "init": -1.0},
    "synib-amortized": {"widths": {"x1": 64, "x2": 64}, "sparsity": 0.1, "weight": 2.0},
    "synib-marginal": {"weight": 2.0, "draws": 3},
    "synib-oracle": {"weight": 2.0, "coordinates": SIGNAL},
    "experts": {"weight": 2.0, "draws": 3},
    "dnr": {"strength": 3.0, "every": 1, "times": 1, "epochs": 3},
    "mmpareto": {},
    "reconboost": {"stage": 1, "rectify": 1},
    "mcr": {"game": 0.5},
    "ogm": {"alpha": 0.5},
    "agm": {"alpha": 1.0},
}
TRAINING = {"lr": 1e-2, "weight_decay": 1e-3, "epochs": 2, "batch_size": 16, "unimodal_weight": 0.05}


class Tiny:
    """Spurious XOR with 40 examples (two batches of 16 and one of 8) and eight hidden units."""

    curves = True

    def __init__(self, dropout: float = 0.0) -> None:
        self.dropout = dropout

    def data(self, cell: Cell) -> Dataset:
        return spurious_xor(cell.factors["beta"], cell.seed, train=40, validation=16, test=64)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return FusionModel.mlp(data.widths, hidden=[8], head_hidden=[], fusion_hidden=[8], dropout=self.dropout)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        training = ("lr", "weight_decay", "epochs", "batch_size")
        settings = {k: v for k, v in cell.settings.items() if k not in training}
        return methods.build(cell.method, family=Bernoulli(), **settings)


@pytest.fixture
def tiny() -> Callable[..., Tiny]:
    """The recipe; ``tiny(dropout=p)`` for models with dropout."""
    return Tiny


@pytest.fixture
def cell() -> Callable[..., Cell]:
    """A cell of any method: ``cell("vanilla", beta=1.0, seed=0, lr=1e-3, ...)``."""

    def make(method: str = "vanilla", beta: float = 1.0, seed: int = 0, **settings: Any) -> Cell:
        return Cell("tiny", method, {"beta": beta}, TRAINING | OWN[method] | settings, seed)

    return make
