"""CREMA-D from crowd votes: predict the joint judgement from those of voice and face alone, as classes and as a level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch

from synib.data import Dataset
from synib.measure import f1_by_class
from synib.models import FusionModel
from synib.objective import Categorical, Family, Gaussian
from synib.studies.aggregate import lead_sentences
from synib.studies.base import Experiment, Row, grid, option, settings_of
from synib.studies.charts import Bars, Figure, Table
from synib.studies.crema_votes.data import CREMA_VOTES, EMOTIONS, FOLDS, Target, crema_votes
from synib.studies.evaluation import predictions, vector_model
from synib.training import Cell, Learner

SETTINGS = settings_of(__package__)
RIVALS = ("vanilla", "additive")
ABOUT = (
    "Each modality is a judgement by other people: the fractions of a crowd's votes for six emotions, "
    "and the mean level they gave, by voice alone and by face alone. These are not the audio and "
    "frames that the paper's ResNets see. The target is {}. Every actor is in one split only. "
    "Settings were not searched."
)


@dataclass(frozen=True)
class CremaVotes(Experiment):
    """CREMA-D from crowd votes: predict the joint judgement of voice and face from the separate ones."""

    factors: ClassVar[tuple[str, ...]] = ("fold",)
    averaged: ClassVar[tuple[str, ...]] = ("fold",)
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", "dropout", "detach_heads")
    curves: ClassVar[bool] = False
    group: ClassVar[str] = "crema-votes"
    quick: ClassVar[Mapping[str, Any]] = {"fold": (0, 1), "epochs": 5}
    target: ClassVar[Target]
    columns: ClassVar[Mapping[str, str]]
    outputs: ClassVar[int]

    seeds: int = 1
    root: str = option("", "Folder of the data, or its parent; $SYNIB_DATA by default.")
    fold: tuple[int, ...] = option(
        tuple(range(FOLDS)), "Folds of actors to test on, 0 to 4; may be repeated.", among=range(FOLDS)
    )
    epochs: int = option(30, "Number of passes over the training data.")

    def points(self) -> list[dict[str, Any]]:
        return grid(fold=self.fold)

    def fixed(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    @property
    def repeats(self) -> tuple[int, str]:
        return len(self.fold), "fold"

    @property
    def caution(self) -> str:
        return f"Tested on only {len(self.fold)} of {FOLDS} folds." if len(self.fold) < FOLDS else ""

    def data(self, cell: Cell) -> Dataset:
        return _data(str(CREMA_VOTES.find(self.root or None)), self.target, int(cell.factors["fold"]))  # type: ignore[arg-type]

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return vector_model(data.widths, cell.settings, self.outputs)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Scores at test."""
        assert data.test is not None
        return self.scores(predictions(learner, data.test.modalities, len(data.test)), data.test.target)

    def scores(self, prediction: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
        """Scores of predictions."""
        raise NotImplementedError

    def metrics(self, results: Sequence[Row]) -> list[str]:
        return [metric for metric in self.columns.values() if metric in results[0]]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        first = next(iter(self.columns.values()))
        rows = {(row["method"], row["metric"]): row for row in summary}
        words = {f"{first}_over_{rival}": f"lead over {rival} in {first.replace('_', ' ')}" for rival in RIVALS}
        note = " ".join(lead_sentences(rows, self.methods, words, "fold", 1 / FOLDS))
        columns = {**self.columns, **{f"{next(iter(self.columns))}, above {r}": f"{first}_over_{r}" for r in RIVALS}}
        return [
            Table.of_metrics(
                "at test, on actors that are not in the training data", columns, summary, self.methods, note=note
            )
        ]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        shown = dict(list(self.columns.items())[:2])
        how = f"Lines are ± one standard error over {len(self.fold)} fold{'s' * (len(self.fold) != 1)} of actors."
        return [Bars.of("figure", self.title, shown, summary, self.methods, reading=how, spread="error", over="folds")]


@dataclass(frozen=True)
class CremaVotesEmotion(CremaVotes):
    """CREMA-D from crowd votes: the emotion chosen by most raters who see and hear."""

    name: ClassVar[str] = "crema-votes-emotion"
    title: ClassVar[str] = "CREMA-D from crowd votes: which emotion do face and voice show together?"
    about: ClassVar[str] = ABOUT.format("the emotion with the most votes for face and voice together; ties are dropped")
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SETTINGS["crema-votes-emotion"]
    family: ClassVar[Family] = Categorical()
    target: ClassVar[Target] = "emotion"
    outputs: ClassVar[int] = len(EMOTIONS)
    columns: ClassVar[Mapping[str, str]] = {
        "accuracy": "test_accuracy",
        "where voice and face disagree": "test_accuracy_disagree",
        "where the answer is neither": "test_accuracy_neither",
        "macro F1": "macro_f1",
        "log-loss": "log_loss",
    }
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {"test_accuracy": RIVALS}

    methods: tuple[str, ...] = tuple(SETTINGS["crema-votes-emotion"])

    def scores(self, prediction: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
        f1 = f1_by_class(prediction.argmax(1), target, self.outputs)
        return {"macro_f1": float(np.nanmean(f1)), "log_loss": self.family.nll(prediction, target).mean().item()}


@dataclass(frozen=True)
class CremaVotesLevel(CremaVotes):
    """CREMA-D from crowd votes: the strength of the emotion for raters who see and hear."""

    name: ClassVar[str] = "crema-votes-level"
    title: ClassVar[str] = "CREMA-D from crowd votes: how strong is the emotion of face and voice together?"
    about: ClassVar[str] = ABOUT.format(
        "the mean level (0 to 100) given by raters of face and voice together, standardised, predicted as a Gaussian"
    )
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SETTINGS["crema-votes-level"]
    family: ClassVar[Family] = Gaussian()
    target: ClassVar[Target] = "level"
    outputs: ClassVar[int] = 2
    headline: ClassVar[str] = "r2"
    columns: ClassVar[Mapping[str, str]] = {"explained variance": "r2", "log-loss": "log_loss"}
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {"r2": RIVALS}

    methods: tuple[str, ...] = tuple(SETTINGS["crema-votes-level"])

    def scores(self, prediction: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
        error = (self.family.predict(prediction) - target).square().mean().item()
        spread = target.var(correction=0).item()
        return {"r2": 1 - error / spread, "log_loss": self.family.nll(prediction, target).mean().item()}


@lru_cache(maxsize=16)
def _data(root: str, target: Target, fold: int) -> Dataset:
    return crema_votes(root, target, fold)
