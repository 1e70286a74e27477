"""A recipe small enough to train dozens of cells in a second, and what the tests of sweeps share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synib import methods
from synib.data import Dataset
from synib.files import read_json
from synib.models import FusionModel
from synib.objective import Bernoulli, Objective
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import Cell, fleet
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
        training = ("lr", "weight_decay", "epochs", "batch_size")
        settings = {k: v for k, v in cell.settings.items() if k not in training}
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
