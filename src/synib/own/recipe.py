"""How models are trained on a user's own rows: what they are given, how large they are, and what a search may try."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib.checks import check_whole
from synib.data import Dataset, Split
from synib.measure.stats import standardisation
from synib.methods import build
from synib.models import FusionModel
from synib.objective import Bernoulli, Categorical, Family, Gaussian, Objective
from synib.own.folds import Fold, Rows, strata
from synib.own.table import Table
from synib.tokens import Modality, maybe
from synib.training import Cell

Numbers = NDArray[np.float64]

STEPS = 600  # of training, or as many epochs as MOST
MOST = 40  # epochs
KEPT = 1 << 30  # bytes of prepared folds that stay in memory
OF_MODEL = ("hidden", "dropout")
OF_TRAINING = ("lr", "weight_decay", "epochs", "batch_size", "rows")
# What a search may try, likeliest first: the learning rate, dropout, and of each method what is its own.
RATES = (3e-3, 1e-3, 1e-2)
DROPOUTS = (0.0, 0.3)
DECAYS: dict[str, Sequence[float]] = {"weight_decay": (1e-4, 1e-3, 1e-2)}
OWN: dict[str, dict[str, Sequence[float]]] = {
    "confidence": {"weight": (1.0, 0.3, 3.0)},
    "synib-random": {"weight": (3.0, 1.0, 10.0)},
    "synib-marginal": {"weight": (1.0, 3.0, 10.0)},
    "experts": {"weight": (10.0, 3.0, 1.0)},
}
# Of classes, the forms of SynIB that `synib reproduce forms` found best: in one model, and as experts.
FIXED: dict[str, dict[str, Any]] = {
    "synib-random": {"p": 1.0, "noise": "shuffled"},
    "synib-marginal": {"draws": 16},
    "experts": {"draws": 16, "debias": True},
}
ANNEALED = ("synib-random",)  # the weight falls to 0 over four fifths of the steps
SYNIB, SYNIB_OF_NUMBERS = ("synib-random", "experts"), ("synib-marginal",)
CANDIDATES = 18  # at most: all of 3 x 2 x 3


@dataclass(frozen=True)
class Scaling:
    """From a user's numbers to a model's, by what the training rows say.

    Args:
        mean, factor: For each modality and column: a model sees (x - mean) · factor. A column that is constant in training has
            the factor 0.
        target: Mean and standard deviation of a target that is a number; (0, 1) for classes.
    """

    mean: Mapping[str, Numbers]
    factor: Mapping[str, Numbers]
    target: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of(cls, table: Table, rows: Rows) -> "Scaling":
        """What these rows say, of each modality those that have it."""
        mean, factor = {}, {}
        for name, x in table.modalities.items():
            there = rows[np.asarray(table.present[name])[rows]]
            mean[name], factor[name] = standardisation(x, there)
        target = (0.0, 1.0)
        if not table.classes:
            y = np.asarray(table.target, dtype=np.float64)[rows]
            target = float(y.mean()), float(y.std())
            if not target[1] > 1e-12 * abs(target[0]):
                raise ValueError(
                    f"The target is {target[0]:g} in all {len(rows)} rows to train on: there is nothing to learn."
                )
        return cls(mean, factor, target)

    def __call__(self, name: str, x: ArrayLike) -> Tensor:
        """Rows of a modality as a model sees them, in single precision; what was given is left as it is."""
        return self.into(name, np.array(x, dtype=np.float32))

    def into(self, name: str, seen: NDArray[np.float32]) -> Tensor:
        """The same in the place of what is given."""
        seen -= self.mean[name].astype(np.float32)
        seen *= self.factor[name].astype(np.float32)
        return torch.from_numpy(seen)

    def parameters(self, family: Family, said: NDArray[Any]) -> NDArray[Any]:
        """A model's predictions in the target's own units: mean and log-variance of a number; logits as they are."""
        if family.discrete:
            return said
        mean, spread = self.target
        return np.stack([said[..., 0] * spread + mean, said[..., 1] + 2 * math.log(spread)], -1)


class Own:
    """Cells over a user's folds: the same data, budget and sizes for every method.

    Every modality is standardised by the training rows that have it. Models have two layers in each encoder and one in the
    fusion, 32, 64 or 128 wide by the number of training rows, and linear unimodal heads that do not reach the encoders.

    Args:
        table: The data.
        parts: Its folds.
        epochs: Passes over the training rows; by default so many that there are about 600 steps, at most 40.

    Attributes:
        family: Bernoulli for two classes, Categorical for more, Gaussian for numbers.
        outputs: How many numbers a prediction has.
        missing: The modalities that some row lacks; a row without one gets a latent that is learned.
        parts: The folds as they are trained: cut to one size where that costs less than a row for each fold, so that they can
            be trained together. Test rows are never cut.
        notes: What was cut.
    """

    curves: ClassVar[bool] = False

    def __init__(self, table: Table, parts: Sequence[Fold], epochs: int | None = None) -> None:
        self.table = table
        self.given_epochs = check_whole("epochs", epochs) if epochs is not None else None
        self.family, self.outputs = family_of(table.classes)
        self.missing = tuple(name for name, present in table.present.items() if not np.asarray(present).all())
        self.parts, self.notes = self._cut(parts)
        small = min(len(fold.train) for fold in self.parts)
        if small < 2:
            raise ValueError(f"At least 2 rows are needed to train on; there is {small}.")
        self._made: dict[int, Dataset] = {}
        self._scalings: dict[int, Scaling] = {}
        self._lock = threading.Lock()

    def cells(self, method: str, budget: int, seeds: int = 1, first: int = 0) -> list[Cell]:
        """Every candidate of a method in every fold with every seed from the first on, in this order."""
        return [
            Cell("own", method, {"fold": fold}, self.settings(method, candidate, fold), seed)
            for fold in range(len(self.parts))
            for candidate in candidates(method, budget)
            for seed in range(first, first + seeds)
        ]

    def settings(self, method: str, candidate: Mapping[str, float], fold: int) -> dict[str, Any]:
        """Everything that decides how a candidate is trained on a fold."""
        train, validation, _ = self.parts[fold]
        batch_size, epochs = pace(len(train))
        epochs = self.given_epochs or epochs
        steps = epochs * math.ceil(len(train) / batch_size)
        return {
            "weight_decay": 1e-4,
            **FIXED.get(method, {}),
            **({"weight_schedule": "anneal", "weight_steps": max(1, 4 * steps // 5)} if method in ANNEALED else {}),
            **candidate,
            "hidden": [self.width, self.width],
            "batch_size": batch_size,
            "epochs": epochs,
            "rows": [len(train), len(validation)],  # folds of other sizes are trained apart
        }

    @cached_property
    def width(self) -> int:
        """Of every hidden layer."""
        rows = min(len(fold.train) for fold in self.parts)
        return 32 if rows < 1000 else 64 if rows < 10_000 else 128

    def data(self, cell: Cell) -> Dataset:
        """Training and validation rows of a fold. Test rows are not in it: nothing that trains or chooses can see them."""
        fold = int(cell.factors["fold"])  # type: ignore[arg-type]
        with self._lock:  # the fleet asks for all cells at once
            if fold not in self._made:
                train, validation = (self.split(fold, rows) for rows in self.parts[fold][:2])
                while self._made and (len(self._made) + 1) * self.bytes(fold) > KEPT:
                    self._made.pop(next(iter(self._made)))
                self._made[fold] = Dataset(train, validation, None)
            return self._made[fold]

    def split(self, fold: int, rows: Rows) -> Split:
        """Rows as the models of a fold see them, with the target in the family's form."""
        target = np.asarray(self.table.target)[rows]
        if self.family.discrete:
            return Split(self.inputs(fold, rows), torch.from_numpy(target.astype(np.int64)))
        mean, spread = self.scaling(fold).target
        return Split(self.inputs(fold, rows), torch.from_numpy(((target - mean) / spread).astype(np.float32))[:, None])

    def inputs(self, fold: int, rows: Rows) -> dict[str, Modality]:
        """Modalities of some rows, as the models of a fold see them."""
        scaling = self.scaling(fold)
        made: dict[str, Modality] = {}
        for name, x in self.table.modalities.items():
            seen = scaling.into(name, x[rows].astype(np.float32, copy=False))  # to be indexed is to be copied, once
            present = torch.from_numpy(np.asarray(self.table.present[name])[rows].astype(bool))
            made[name] = maybe(seen, present) if name in self.missing else seen
        return made

    def scaling(self, fold: int) -> Scaling:
        """How a fold's rows are scaled, by its training rows alone."""
        if fold not in self._scalings:
            self._scalings[fold] = Scaling.of(self.table, self.parts[fold].train)
        return self._scalings[fold]

    def bytes(self, fold: int) -> int:
        """How much memory a fold's rows take."""
        rows = len(self.parts[fold].train) + len(self.parts[fold].validation)
        return 4 * rows * sum(x.shape[1] for x in self.table.modalities.values())

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return make_model(data.widths, self.outputs, self.missing, cell.settings)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        return make_method(cell.method, self.family, cell.settings)

    def _cut(self, parts: Sequence[Fold]) -> tuple[list[Fold], tuple[str, ...]]:
        if not parts:
            raise ValueError("There are no folds to train on.")
        sizes = {name: [len(getattr(fold, name)) for fold in parts] for name in ("train", "validation")}
        if not min(sizes["validation"]):
            raise ValueError("Every fold needs validation rows to choose settings on; one has none.")
        lost = {name: max(each) - min(each) for name, each in sizes.items()}
        if max(lost.values()) >= len(parts) or not max(lost.values()):
            return list(parts), ()
        classes = strata(self.table)
        cut = [
            Fold(
                _without(fold.train, classes, min(sizes["train"])),
                _without(fold.validation, classes, min(sizes["validation"])),
                fold.test,
            )
            for fold in parts
        ]
        said = (
            f"Folds are trained together, so each has {len(cut[0].train):,} training and {len(cut[0].validation):,} validation "
            f"rows: up to {max(lost.values())} of each were left out of a fold. All test rows are predicted."
        )
        return cut, (said,)


def family_of(classes: Sequence[str]) -> tuple[Family, int]:
    """The family of a target with these classes (none: a number), and how many numbers a prediction has."""
    if not classes:
        return Gaussian(), 2
    return (Bernoulli(), 1) if len(classes) == 2 else (Categorical(), len(classes))


def methods_of(table: Table) -> list[str]:
    """Every method that is compared on a user's data; experts add log-odds of classes, and numbers have none."""
    alone = [f"unimodal-{name}" for name in table.modalities]
    return [*alone, "ensemble", "additive", "vanilla", "confidence", *(SYNIB if table.classes else SYNIB_OF_NUMBERS)]


def candidates(method: str, budget: int) -> list[dict[str, float]]:
    """The first so many settings to try: as many for every method, spread over learning rate, dropout and what is its own."""
    if check_whole("budget", budget) > CANDIDATES:
        raise ValueError(f"budget is how many candidates each method gets, at most {CANDIDATES}; got {budget}.")
    ((name, values),) = OWN.get(method, DECAYS).items()
    # A Latin square of learning rates and own values, dropout alternating; nine being odd, the next nine have the other one.
    return [{"lr": RATES[i % 3], "dropout": DROPOUTS[i % 2], name: values[(i + i // 3) % 3]} for i in range(budget)]


def pace(rows: int) -> tuple[int, int]:
    """Batch size and epochs for so many training rows."""
    batch = 32 if rows < 500 else 64 if rows < 5000 else 128 if rows < 50_000 else 256
    while rows % batch == 1:  # a row alone has no other to be swapped with
        batch += 1
    return batch, min(MOST, max(2, round(STEPS * batch / rows)))


def make_model(
    widths: Mapping[str, int], outputs: int, missing: Sequence[str], settings: Mapping[str, Any]
) -> FusionModel:
    """The network of these settings."""
    return FusionModel.mlp(
        widths,
        hidden=settings["hidden"],
        classes=outputs,
        head_hidden=[],
        fusion_hidden=settings["hidden"][-1:],
        dropout=settings["dropout"],
        detach_heads=True,
        missing=missing,
    )


def make_method(name: str, family: Family, settings: Mapping[str, Any]) -> Objective:
    """The method of these settings."""
    return build(name, family=family, **{k: v for k, v in settings.items() if k not in (*OF_MODEL, *OF_TRAINING)})


def _without(rows: Rows, classes: Rows, size: int) -> Rows:
    """So many of the rows; those left out are of the most common class."""
    common = np.flatnonzero(classes[rows] == np.bincount(classes[rows]).argmax())
    return np.delete(rows, common[len(common) - (len(rows) - size) :])
