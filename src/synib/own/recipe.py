"""How models are trained on a user's rows: the cells with their data, network and method."""

import math
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from synib.checks import check_whole, shown
from synib.data import Dataset, Split
from synib.files.pages import RowReader
from synib.methods import build
from synib.models import FusionModel
from synib.objective import Bernoulli, Categorical, Family, Gaussian, MultiLabel, Objective
from synib.own.folds import Fold, Rows, kind_of, strata
from synib.own.scaling import Scaling
from synib.own.search_space import LINEAR, candidates, fixed, pace
from synib.own.table import Table
from synib.tokens import Modality, optional
from synib.training import Cell
from synib.training.lazy_rows import LazyRows

KINDS = ("classification", "ordinal", "multilabel", "regression")
LARGE = 1 << 22  # bytes of a fold; rows of larger ones are read and standardised on demand
OF_MODEL = ("hidden", "dropout")
OF_TRAINING = ("lr", "weight_decay", "epochs", "batch_size", "rows", "ridge")


class TableRecipe:
    """Cells over a user's folds, with the same data, budget and network size for every method.

    Every modality is standardised by the training rows that have it. Networks have two layers in each encoder and one in the
    fusion, 32, 64 or 128 units wide depending on the number of training rows, and linear unimodal heads that do not train
    the encoders.

    Args:
        table: The data.
        parts: Its folds.
        epochs: Passes over the training rows; by default about 600 steps, and at most 40 epochs.
        width: Width of every hidden layer; by default chosen by the number of training rows.

    Attributes:
        family: Bernoulli for two classes, Categorical for more (ordered or not), MultiLabel for labels, Gaussian for numbers.
        outputs: Number of outputs of a prediction.
        missing: The modalities that some rows lack; a row without one gets a learned latent.
        parts: The folds used in training: cut to one size if that costs fewer rows than there are folds, so that they can
            be trained together. Test rows are never cut.
        notes: Notes on how many rows were cut.
    """

    curves: ClassVar[bool] = False

    def __init__(
        self, table: Table, parts: Sequence[Fold], epochs: int | None = None, width: int | None = None
    ) -> None:
        self.table = table
        self.given_epochs = check_whole("epochs", epochs) if epochs is not None else None
        self.given_width = check_whole("width", width) if width is not None else None
        self.family, self.outputs = family_of(table)
        self.missing = tuple(name for name, present in table.present.items() if not present.all())
        self.parts, self.notes = _cut(table, parts)
        fewest = min(len(fold.train) for fold in self.parts)
        if fewest < 2:
            raise ValueError(f"At least 2 rows are needed to train on; there is {fewest}.")
        self.lazy = max(self.bytes(fold) for fold in range(len(self.parts))) > LARGE
        self._readers: dict[str, RowReader] = {}
        self._datasets: dict[int, Dataset] = {}
        self._scalings: dict[int, Scaling] = {}
        self._lock = threading.Lock()

    def cells(self, method: str, budget: int, seeds: int = 1, first: int = 0) -> list[Cell]:
        """Cells for every fold, candidate and seed of a method, in this order of nesting."""
        return [
            Cell("own", method, {"fold": fold}, self.settings(method, candidate, fold), seed)
            for fold in range(len(self.parts))
            for candidate in candidates(method, budget, self.table.kind)
            for seed in range(first, first + seeds)
        ]

    def settings(self, method: str, candidate: Mapping[str, float], fold: int) -> dict[str, Any]:
        """All training settings of a candidate on a fold."""
        train, validation, _ = self.parts[fold]
        batch_size, epochs = pace(len(train))
        epochs = self.given_epochs or epochs
        return {
            **fixed(method, epochs * math.ceil(len(train) / batch_size), self.table.kind),
            **candidate,
            "hidden": [self.width, self.width],
            "batch_size": batch_size,
            "epochs": epochs,
            "rows": [len(train), len(validation)],  # folds of different sizes are trained separately
        }

    @cached_property
    def width(self) -> int:
        """Width of every hidden layer."""
        if self.given_width is not None:
            return self.given_width
        rows = min(len(fold.train) for fold in self.parts)
        return 32 if rows < 1000 else 64 if rows < 10_000 else 128

    def data(self, cell: Cell) -> Dataset:
        """Training and validation rows of a fold, without test rows, so that training and selection cannot use them."""
        fold = fold_of(cell)
        with self._lock:  # called from several threads of the fleet
            if fold not in self._datasets:
                train, validation = (self.view(fold, rows) for rows in self.parts[fold][:2])
                self._datasets[fold] = Dataset(train, validation, None)
            return self._datasets[fold]

    def release(self) -> None:
        """Free the prepared rows; they are prepared again on demand."""
        with self._lock:
            self._datasets.clear()

    def split(self, fold: int, rows: Rows) -> Split:
        """Rows prepared for the models of a fold, with the target in the family's form."""
        return self._split(fold, rows, self.inputs(fold, rows))

    def view(self, fold: int, rows: Rows) -> Split:
        """Like :meth:`split`; modalities of a large table are :class:`~synib.training.lazy_rows.LazyRows`, read on demand."""
        if not self.lazy:
            return self.split(fold, rows)
        scaling, index = self.scaling(fold), torch.from_numpy(np.asarray(rows, dtype=np.int64))
        modalities: dict[str, Any] = {}
        for name, x in self.table.modalities.items():
            reader = self._readers.setdefault(name, RowReader(np.asarray(x)))
            mean, factor = (torch.from_numpy(part.astype(np.float32)) for part in scaling.columns[name])
            present = torch.from_numpy(self.table.present[name][rows].astype(bool)) if name in self.missing else None
            modalities[name] = LazyRows(reader, index, mean, factor, present)
        return self._split(fold, rows, modalities)

    def _split(self, fold: int, rows: Rows, modalities: Mapping[str, Modality]) -> Split:
        target, weight = self.table.target[rows], self.table.weight
        counts = None if weight is None else torch.from_numpy(weight[rows].astype(np.float32))
        if not isinstance(self.family, Gaussian):
            labels = torch.from_numpy(target.astype(np.int64 if self.family.discrete else np.float32))
            return Split(modalities, labels, sample_weight=counts)
        mean, deviation = self.scaling(fold).target
        scaled = ((target - mean) / deviation).astype(np.float32)
        return Split(modalities, torch.from_numpy(scaled)[:, None], sample_weight=counts)

    def inputs(self, fold: int, rows: Rows) -> dict[str, Modality]:
        """Modalities of some rows, prepared for the models of a fold."""
        scaling = self.scaling(fold)
        inputs: dict[str, Modality] = {}
        for name, x in self.table.modalities.items():
            scaled = scaling.in_place(name, x[rows].astype(np.float32, copy=False))  # indexing has copied the rows
            present = torch.from_numpy(self.table.present[name][rows].astype(bool))
            inputs[name] = optional(scaled, present) if name in self.missing else scaled
        return inputs

    def scaling(self, fold: int) -> Scaling:
        """The scaling of a fold, fitted to its training rows only."""
        if fold not in self._scalings:
            self._scalings[fold] = Scaling.fit(self.table, self.parts[fold].train)
        return self._scalings[fold]

    def bytes(self, fold: int) -> int:
        """Bytes of a fold's training and validation rows."""
        rows = len(self.parts[fold].train) + len(self.parts[fold].validation)
        return 4 * rows * sum(x.shape[1] for x in self.table.modalities.values())

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return make_model(data.widths, self.outputs, self.missing, cell.settings)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        return make_method(cell.method, self.family, cell.settings)


def fold_of(cell: Cell) -> int:
    """The number of a cell's fold."""
    return int(cell.factors["fold"])  # type: ignore[arg-type]


def family_of(table_or_kind: Table | str, classes: Sequence[str] = ()) -> tuple[Family, int]:
    """The family of a target, and its number of outputs.

    Args:
        table_or_kind: A table, or the kind of its target: ``"classification"``, ``"ordinal"``, ``"multilabel"`` or
            ``"regression"``. Ordered classes are modelled like unordered ones.
        classes: Names of the classes or labels, if a kind is given.
    """
    if isinstance(table_or_kind, Table):
        return family_of(kind_of(table_or_kind), table_or_kind.classes)
    if table_or_kind not in KINDS:
        raise ValueError(
            f"The kind of a target must be {', '.join(KINDS[:-1])} or {KINDS[-1]}; got {shown(table_or_kind)}."
        )
    if table_or_kind == "regression":
        return Gaussian(), 2
    if table_or_kind == "multilabel":
        return MultiLabel(), len(classes)
    return (Bernoulli(), 1) if len(classes) == 2 else (Categorical(), len(classes))


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
    """The method of these settings; a logistic regression is an additive model."""
    name = "additive" if name == LINEAR else name
    return build(name, family=family, **{k: v for k, v in settings.items() if k not in (*OF_MODEL, *OF_TRAINING)})


def _cut(table: Table, parts: Sequence[Fold]) -> tuple[list[Fold], tuple[str, ...]]:
    """The folds cut to one size, if that costs fewer rows than there are folds, and a note on it."""
    if not parts:
        raise ValueError("There are no folds to train on.")
    sizes = {name: [len(getattr(fold, name)) for fold in parts] for name in ("train", "validation")}
    if not min(sizes["validation"]):
        raise ValueError("Every fold needs validation rows to choose settings on; one has none.")
    cut = max(max(counts) - min(counts) for counts in sizes.values())
    if cut >= len(parts) or not cut:
        return list(parts), ()
    classes, train, validation = strata(table), min(sizes["train"]), min(sizes["validation"])
    folds = [
        Fold(_first(fold.train, classes, train), _first(fold.validation, classes, validation), fold.test)
        for fold in parts
    ]
    note = (
        f"Folds are trained together, so each has {train:,} training and {validation:,} validation rows; up to {cut} of "
        "each were left out of a fold. All test rows are predicted."
    )
    return folds, (note,)


def _first(rows: Rows, classes: Rows, size: int) -> Rows:
    """``size`` of the rows; those left out are of the most common class."""
    common = np.flatnonzero(classes[rows] == np.bincount(classes[rows]).argmax())
    return np.delete(rows, common[len(common) - (len(rows) - size) :])
