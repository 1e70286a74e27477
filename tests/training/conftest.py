"""A recipe small enough to train dozens of cells in a second, and what the tests of sweeps share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from synib import methods
from synib.data import Dataset
from synib.files import read_json
from synib.models import FusionModel
from synib.objective import Bernoulli, Objective
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import Cell, fleet, solo
from synib.training.cells import NEEDED
from synib.training.folder import Folder
from synib.training.sweep import sweep

TRAINING = {"lr": 1e-2, "weight_decay": 1e-3, "epochs": 2, "batch_size": 16, "unimodal_weight": 0.05}
LONGER = {"dnr": {"epochs": 3}}  # it acts after the second epoch, and never after the last
WIDTHS = {"x1": 64, "x2": 64}
CONFIG = {"experiment": "tiny"}
TABLES = ("results.csv", "curves.csv", "shards.json")


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
        settings = {k: v for k, v in cell.settings.items() if k not in NEEDED}
        return methods.build(cell.method, family=Bernoulli(), **settings)


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Tiny]:
    """The recipe; ``tiny(dropout=p)`` for models with dropout."""
    return Tiny


@pytest.fixture(scope="session")
def cell(settings_of: Callable[..., dict[str, Any]]) -> Callable[..., Cell]:
    """A cell of any method: ``cell("vanilla", beta=1.0, seed=0, lr=1e-3, ...)``."""

    def make(method: str = "vanilla", beta: float = 1.0, seed: int = 0, **settings: Any) -> Cell:
        own = settings_of(method, WIDTHS) | LONGER.get(method, {})
        return Cell("tiny", method, {"beta": beta}, TRAINING | own | settings, seed)

    return make


@dataclass
class Single:
    """A fresh model and method, their data, and how they are to be trained."""

    model: FusionModel
    method: Objective
    data: Dataset
    settings: dict[str, Any]

    def fit(self, **options: Any) -> solo.Fitted:
        return solo.fit(self.method, self.model, self.data, **{"device": "cpu", **self.settings, **options})

    def state(self) -> dict[str, Tensor]:
        parts = {"model": self.model, "method": self.method}
        named = ((who, [*part.named_parameters(), *part.named_buffers()]) for who, part in parts.items())
        return {f"{who}.{name}": tensor for who, tensors in named for name, tensor in tensors}

    def same(self, other: "Single", rtol: float = 0.0, atol: float = 0.0) -> None:
        """Assert that all parameters and buffers are those of another: by default to the bit."""
        torch.testing.assert_close(self.state(), other.state(), rtol=rtol, atol=atol)


@pytest.fixture
def made(tiny: Callable[..., Tiny], cell: Callable[..., Cell]) -> Callable[..., Single]:
    """``made(method, dropout, **settings)``: what one cell begins with, for the solo engine."""

    def make(name: str = "vanilla", dropout: float = 0.0, **settings: Any) -> Single:
        one, recipe = cell(name, **settings), tiny(dropout)
        data = recipe.data(one)
        torch.manual_seed(one.seed)
        model = recipe.model(one, data)
        torch.manual_seed(one.seed)
        return Single(model, recipe.method(one, data), data, {k: one.settings[k] for k in NEEDED})

    return make


@pytest.fixture(scope="session")
def cells(cell: Callable[..., Cell]) -> list[Cell]:
    """Five cells in two programs: two at a time they make three shards, vanilla 2 + 1 and random 2."""
    return [cell(seed=s) for s in range(3)] + [cell("synib-random", seed=s, beta=0.5) for s in range(2)]


@pytest.fixture(scope="session")
def run() -> Callable[..., dict[str, bytes]]:
    """A whole sweep: ``run(path, recipe, cells, **options)`` → the bytes of its tables."""

    def swept(path: Path, recipe: Any, cells: list[Cell], **options: Any) -> dict[str, bytes]:
        sweep(recipe, cells, Folder(path, CONFIG), **options)
        return {name: (path / name).read_bytes() for name in TABLES}

    return swept


class Killed(BaseException):
    pass


@pytest.fixture(scope="session")
def run_killed(run: Callable[..., dict[str, bytes]]) -> Callable[..., int]:
    """A sweep that is ended when its progress is told for the nth time: ``run_killed(n, path, ...)`` → finished shards."""

    def swept(calls: int, path: Path, *arguments: Any, **options: Any) -> int:
        left = iter(range(calls))

        def progress(done: float, of: float) -> None:
            if next(left, None) is None:
                raise Killed

        with pytest.raises(Killed):
            run(path, *arguments, on_progress=progress, **options)
        return len(list((path / "shards").glob("*.json")))

    return swept


@pytest.fixture(scope="session")
def kept() -> Callable[[Path], dict[str, tuple[bytes, int]]]:
    """From a run's folder to every finished shard: its bytes, and when they were written."""
    return lambda path: {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (path / "shards").iterdir()}


@pytest.fixture(scope="session")
def sizes() -> Callable[[Path], list[int]]:
    """From a run's folder to how many cells each of its shards has."""
    return lambda path: [len(shard) for shard in read_json(path / "shards.json")]


class Device:
    """Training that takes no time, on a device with room for as many models as :attr:`fits` says.

    Accuracies follow from the cell alone; :attr:`tried` has the shards that came, with everything else train was given.
    """

    def __init__(self) -> None:
        self.tried: list[list[Cell]] = []
        self.options: list[tuple[str, str]] = []
        self.fits: Callable[[Any], bool] = lambda shard: True
        self.fail: Callable[[], None] = lambda: None

    def train(
        self,
        recipe: Any,
        shard: Any,
        device: Any = "cpu",
        on_epoch: Callable[[], None] = lambda: None,
        precision: str = "float32",
    ) -> fleet.Trained:
        self.tried.append(list(shard))
        self.options.append((str(device), precision))
        for epoch in range(shard[0].settings["epochs"]):
            if epoch and not self.fits(shard):  # the first epoch has passed, and is lost
                self.fail()
            on_epoch()
        accuracy = [int(cell.id, 16) % 1000 / 1000 for cell in shard]
        metrics, curves = [{"test_accuracy": a} for a in accuracy], [{"train_accuracy": [0.5, a]} for a in accuracy]
        return fleet.Trained(metrics, curves, None)  # type: ignore[arg-type]

    @property
    def sizes(self) -> list[int]:
        return [len(shard) for shard in self.tried]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(fleet, "train", made.train)
    return made
