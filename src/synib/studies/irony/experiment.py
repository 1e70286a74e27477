"""Irony on RAVDESS or CREMA-D (App. "Irony"): face and voice contradict each other, which only both together show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from synib.data import Dataset, Split
from synib.measure import auc, best_shift, f1_by_class
from synib.models import FusionModel, resnet_model
from synib.objective import Categorical, Family
from synib.studies.base import Experiment, Row, grid, option, settings_of
from synib.studies.candidates import own_values
from synib.studies.charts import Figure, Table
from synib.studies.evaluation import predictions, vector_model
from synib.studies.features import RAVDESS
from synib.studies.irony.crema_d import CREMA_D
from synib.studies.irony.data import (
    CLASSES,
    FOLDS,
    SIMILAR_FOLDS,
    IronyData,
    Source,
    actor_counts,
    crema_d_irony,
    emotion_scores,
    ravdess_irony,
)
from synib.studies.irony.page import ABOUT, METRICS, RIVAL, SHIFTED, WITHOUT_MODEL, figure, tables
from synib.studies.irony.paper import MAX_EPOCHS, PAPER, RATES
from synib.training import Cell, Learner

TOLERATED = 0.01  # loss of macro F1 on validation data for a better ranking of irony
ROWS = 64  # in a batch of predictions: examples of CREMA-D are large
# settings.json: for RAVDESS by `synib reproduce search --of irony --seeds 12`, on validation data at α = .5 with the paper's
# donors. For CREMA-D nothing was searched: the paper's settings, else the middle of the candidates; masks that would mix noise
# into bytes, or corrupted rows into a BatchNorm, act on latents. ReconBoost's rounds take 10 epochs, so training ends with a
# rectification.
SETTINGS = settings_of(__package__)


@dataclass(frozen=True)
class IronyRates(Experiment):
    """Irony: which methods recognise contradictions between face and voice, and how rare may they be?"""

    name: ClassVar[str] = "irony"
    title: ClassVar[str] = "Irony: which methods recognise contradictions between face and voice?"
    factors: ClassVar[tuple[str, ...]] = ("alpha", "donors", "fold", "assignment")
    averaged: ClassVar[tuple[str, ...]] = ("fold", "assignment")
    family: ClassVar[Family] = Categorical()
    headline: ClassVar[str] = "irony_auc"
    judged: ClassVar[Mapping[str, str]] = {"irony AUC": "validation_irony_auc", "macro F1": "validation_macro_f1"}
    preferred: ClassVar[str] = (
        f"Among the candidates whose macro F1 on validation data is within {TOLERATED:g} of the best, the "
        "one with the best AUC of irony is chosen"
    )
    rivals: ClassVar[Mapping[str, Sequence[str]]] = dict.fromkeys((*METRICS, *SHIFTED), (RIVAL,))
    # 27 candidates for every method.
    tried: ClassVar[Mapping[str, Sequence[Any]]] = {"lr": (3e-4, 1e-3, 3e-3), "dropout": (0.0, 0.3, 0.5)}
    own: ClassVar[Mapping[str, Any]] = own_values(("video", "audio"))
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_ironic": "irony_recall"}
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", "dropout", "detach_heads", "weights")
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"alpha": (0.5,), "fold": (0, 1, 2)}

    seeds: int = 1
    methods: tuple[str, ...] = tuple(own)
    source: Source = option(
        "ravdess", "Data set: ravdess (features) or crema-d (media; needs the solo engine).", flag="data"
    )
    root: str = option("", "Folder of the data, or its parent; $SYNIB_DATA by default.")
    alpha: tuple[float, ...] = option(
        (0.1, 0.5, 1.0, 2.0),
        "Irony rate: number of ironic examples relative to the mean size of an emotion; may be repeated.",
    )
    donor: tuple[str, ...] = option(
        ("paper", "balanced"), "Choice of donors, paper or balanced; may be repeated.", among=("paper", "balanced")
    )
    fold: tuple[int, ...] = option(
        (0, 1, 2, 3, 4), "Folds of actors to test on, 0 to 4; may be repeated.", among=range(FOLDS)
    )
    assignments: int = option(1, "Number of irony assignments for each fold.")
    epochs: int = option(60, "Maximum number of passes over the training data.")
    weights: str = option(
        "", "Initial weights of crema-d's ResNets: a folder or a Hugging Face Hub id; random by default."
    )
    skip_broken: bool = option(False, "Skip clips of crema-d whose files are missing or broken.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if rates := [alpha for alpha in self.alpha if not 0 <= alpha <= self.classes - 1]:
            raise ValueError(f"alpha must be a number from 0 to {self.classes - 1}; got {rates[0]:g}.")
        if self.source == "ravdess" and (self.weights or self.skip_broken):
            name = "weights" if self.weights else "skip_broken"
            raise ValueError(f"{name} applies to crema-d only; the data are ravdess, which are features.")

    @property
    def about(self) -> str:  # type: ignore[override]  # depends on the data set, which is an option
        return ABOUT[self.source]

    @property
    def classes(self) -> int:
        """Number of classes: the emotions, and irony."""
        return CLASSES[self.source]

    def defaults(self) -> dict[str, dict[str, Any]]:
        settings = SETTINGS["irony" if self.source == "ravdess" else "irony-crema-d"]
        return {method: own | {"epochs": self.epochs} for method, own in settings.items()}

    def searched_at(self) -> dict[str, Any]:
        """Without fold and assignment: the seeds rotate through folds of the same size, each time with another assignment."""
        return {"alpha": 0.5, "donors": "paper"}

    def prefer(self, scores: Sequence[Mapping[str, float]]) -> int:
        """The best irony AUC among the candidates whose macro F1 is within ``TOLERATED`` of the best."""
        least = max(score["validation_macro_f1"] for score in scores) - TOLERATED
        good = [i for i, score in enumerate(scores) if score["validation_macro_f1"] >= least]
        return max(good, key=lambda i: scores[i]["validation_irony_auc"])

    def points(self) -> list[dict[str, Any]]:
        return grid(alpha=self.alpha, donors=self.donor, fold=self.fold, assignment=range(self.assignments))

    def fixed(self) -> dict[str, Any]:
        if self.source == "ravdess":
            return {}
        return {"weights": self.weights or None, "data": {"of": self.source, "skip_broken": self.skip_broken}}

    def fixed_at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """One fold has fewer actors than the others, and only models with splits of equal size are trained together."""
        return {"data": {"actors": actor_counts(point["fold"])}} if self.source == "ravdess" else {}

    def check(self) -> None:
        """The standard check, but without reading CREMA-D's media, which takes an hour: no setting depends on them."""
        if self.source == "ravdess":
            super().check()
            return
        for number in range(2):
            CREMA_D.file(self.root or None, number)
        empty = Split({}, torch.empty(0))
        for cell in {cell.program: cell for cell in self.cells()}.values():
            self.method(cell, Dataset(empty, empty, None))
            self.model(cell, Dataset(empty, empty, None))

    @property
    def repeats(self) -> tuple[int, str]:
        return len(self.fold), "fold"

    @property
    def caution(self) -> str:
        sentences = []
        if len(self.fold) < FOLDS:
            sentences.append(f"Tested on only {len(self.fold)} of {FOLDS} folds.")
        if self.source == "crema-d" and self.epochs < MAX_EPOCHS:
            sentences.append(f"At most {self.epochs} of the paper's {MAX_EPOCHS} epochs.")
        return " ".join(sentences)

    def data(self, cell: Cell) -> Dataset:
        return self.irony_data(cell).data

    def irony_data(self, cell: Cell) -> IronyData:
        """The data and assignment of a cell. They depend on the seed only in a search, where it determines both."""
        turn, index = divmod(cell.seed, len(SIMILAR_FOLDS))
        point: dict[str, Any] = {"fold": SIMILAR_FOLDS[index], "assignment": turn, **cell.factors}
        values = [point[f] for f in self.factors]
        if self.source == "ravdess":
            return ravdess_irony(str(RAVDESS.find(self.root or None)), *values)
        return crema_d_irony(str(CREMA_D.find(self.root or None)), self.skip_broken, *values)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        if self.source == "ravdess":
            return vector_model(data.widths, cell.settings, self.classes)
        options = {name: cell.settings[name] for name in ("weights", "dropout", "detach_heads")}
        return resnet_model(self.classes, **options)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """F1 and AUC on the test set, the F1 also with irony's threshold set on validation data; and rules without a model."""
        irony = self.classes - 1
        on_validation, validation_target = _log_probabilities(learner, data.validation), data.validation.target.numpy()
        if data.test is None:
            f1 = f1_by_class(on_validation.argmax(1), validation_target, self.classes)
            ranking = auc(on_validation[:, irony], validation_target == irony)
            return {"validation_irony_auc": ranking, "validation_macro_f1": float(np.nanmean(f1))}
        on_test, target = _log_probabilities(learner, data.test), data.test.target.numpy()
        shifted = on_test.copy()
        shifted[:, irony] += best_shift(on_validation, validation_target, of=irony)
        scores = {"irony_auc": auc(on_test[:, irony], target == irony)}
        for prefix, log_probabilities in (("", on_test), ("shifted_", shifted)):
            f1 = f1_by_class(log_probabilities.argmax(1), target, self.classes)
            scores |= {f"{prefix}irony_f1": float(f1[irony]), f"{prefix}macro_f1": float(np.nanmean(f1))}
        return scores | emotion_scores(self.irony_data(cell).irony)

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        published = PAPER.get(method, {}).get(metric)
        if self.source == "ravdess" or factors["donors"] != "paper" or published is None:
            return None
        return dict(zip(RATES, published, strict=True)).get(factors["alpha"])

    def rule(self, metric: str) -> tuple[str, str] | None:
        who, _, what = metric.partition("_")
        return (WITHOUT_MODEL[who], what) if who in WITHOUT_MODEL else None

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        return tables(summary, self.methods, self.alpha, self.donor)

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        """One figure for each kind of donors; none for a single rate, for which lines would be points."""
        if len(self.alpha) == 1:
            return []
        models = self.seeds * self.assignments
        averaged = f"{len(self.fold)} folds" + (f", each the mean of {models} models" if models > 1 else "")
        files = {donors: "figure" if i == 0 else f"figure-{donors}" for i, donors in enumerate(self.donor)}
        return [figure(summary, self.methods, donors, file, self.classes, averaged) for donors, file in files.items()]


def _log_probabilities(learner: Learner, split: Split) -> np.ndarray:
    return np.asarray(predictions(learner, split.modalities, ROWS).double().log_softmax(1))
