"""CREMA-D from crowd votes: predict the joint judgement from those of voice and face alone, as classes and as a level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch

from synib.data import Dataset, Split
from synib.measure import f1_by_class, interval
from synib.measure.stats import holm, resampled_p_value
from synib.models import FusionModel
from synib.objective import Categorical, Family, Gaussian
from synib.studies.base import Experiment, Row, grid, option, settings_of
from synib.studies.charts import Bars, Figure, Table
from synib.studies.crema_votes.ceiling import ceilings
from synib.studies.crema_votes.data import CREMA_VOTES, EMOTIONS, FOLDS, Target, crema_votes
from synib.studies.evaluation import predictions, vector_model
from synib.training import Cell, Learner

SETTINGS = settings_of(__package__)
RIVALS = ("vanilla", "confidence", "masked-random", "modality-dropout", "additive", "stacked")
PRIMARY = [("synib-marginal", "vanilla"), ("synib-marginal", "confidence")]
OURS = ("synib-marginal", "synib-random", "synib-learned")
ABOUT = (
    "Each modality is a judgement by other people: the fractions of a crowd's votes for six emotions, "
    "and the mean level they gave, by voice alone and by face alone. These are not the audio and "
    "frames that the paper's ResNets see. The target is {}. Every actor is in one split only. "
    "Every penalty is annealed, every fill is swapped, and all methods had equal searches of settings "
    "(crema-votes-search). Methods, grid, rule of selection and claims were written down before the run (PLAN.md)."
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
    ceilings: ClassVar[Mapping[str, str]]  # column of the results → name

    seeds: int = 3
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
        """Scores at test, and ceilings of the fold."""
        assert data.test is not None
        prediction = predictions(learner, data.test.modalities, len(data.test))
        found = ceilings(str(CREMA_VOTES.find(self.root or None)), self.target, int(cell.factors["fold"]))  # type: ignore[arg-type]
        return self.scores(prediction, data.test) | {f"ceiling_{name}": value for name, value in found.items()}

    def score(self, prediction: torch.Tensor, target: torch.Tensor) -> float:
        """The score by which settings are chosen and claims are made."""
        raise NotImplementedError

    def scores(self, prediction: torch.Tensor, split: Split) -> dict[str, float]:
        """Further scores of predictions."""
        raise NotImplementedError

    def metrics(self, results: Sequence[Row]) -> list[str]:
        return [metric for metric in (*self.columns.values(), *self.ceilings) if metric in results[0]]

    def rule(self, metric: str) -> tuple[str, str] | None:
        return (self.ceilings[metric], self.headline) if metric in self.ceilings else None

    def claims(self, summary: Sequence[Row]) -> list[dict[str, Any]]:
        """Leads with corrected intervals and p-values; Holm's adjustment of the primary ones, and of all others."""
        rows = {(row["method"], row["metric"]): row for row in summary}
        pairs = [(method, rival) for method in OURS for rival in RIVALS] + [("vanilla", "additive")]
        claims = []
        for method, rival in pairs:
            row = rows.get((method, f"{self.headline}_over_{rival}"))
            if row is None or row["se"] is None:
                continue
            low, high = interval(row["mean"], row["se"], row["n"], test_share=1 / FOLDS)
            lead = {"lead": row["mean"], "low": low, "high": high, "n": row["n"], "unit": "fold"}
            p = resampled_p_value(row["mean"], row["se"], row["n"], 1 / FOLDS)
            claims.append({"method": method, "rival": rival, "primary": (method, rival) in PRIMARY, **lead, "p": p})
        for primary in (True, False):
            family = [claim for claim in claims if claim["primary"] == primary]
            for claim, p in zip(family, holm([claim["p"] for claim in family]) if family else [], strict=True):
                claim["p_holm"] = float(p)
        return claims

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        return {"claims": self.claims(summary)}

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        score = next(iter(self.columns))
        rivals = {f"over {r}": f"{self.headline}_over_{r}" for r in RIVALS if r in self.methods}
        note = _in_words([c for c in self.claims(summary) if c["primary"]])
        if note:
            note = f"Claims specified before the run, paired by fold, with 95 % confidence intervals: {note}"
        title = "at test, on actors that are not in the training data"
        who = [*self.methods, *self.ceilings.values()]
        return [
            Table.of_metrics(title, self.columns, summary, who, note=note),
            Table.of_metrics(f"leads in {score}, paired by fold", rivals, summary, self.methods),
        ]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        shown = dict(list(self.columns.items())[:2])
        how = f"Lines are ± one standard error over {len(self.fold)} fold{'s' * (len(self.fold) != 1)} of actors."
        who = [*self.methods, *self.ceilings.values()]
        return [Bars.of("figure", self.title, shown, summary, who, reading=how, spread="error", over="folds")]


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
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {"test_accuracy": RIVALS}
    columns: ClassVar[Mapping[str, str]] = {
        "accuracy": "test_accuracy",
        "where voice and face disagree": "test_accuracy_disagree",
        "where the answer is neither": "test_accuracy_neither",
        "macro F1": "macro_f1",
        "log-loss": "log_loss",
    }
    ceilings: ClassVar[Mapping[str, str]] = {
        "ceiling_low": "ceiling, at least: raters predict raters",
        "ceiling_high": "ceiling, at most: raters drawn again",
    }

    methods: tuple[str, ...] = tuple(SETTINGS["crema-votes-emotion"])

    def score(self, prediction: torch.Tensor, target: torch.Tensor) -> float:
        """Accuracy."""
        return prediction.argmax(1).eq(target).double().mean().item()

    def scores(self, prediction: torch.Tensor, split: Split) -> dict[str, float]:
        f1 = f1_by_class(prediction.argmax(1), split.target, self.outputs)
        log_loss = self.family.nll(prediction, split.target).mean().item()
        return {"macro_f1": float(np.nanmean(f1)), "log_loss": log_loss}


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
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {"r2": RIVALS}
    columns: ClassVar[Mapping[str, str]] = {
        "explained variance": "r2",
        "where voice and face disagree": "r2_disagree",
        "log-loss": "log_loss",
    }
    ceilings: ClassVar[Mapping[str, str]] = {"ceiling_estimate": "ceiling: without the noise of the raters"}

    methods: tuple[str, ...] = tuple(SETTINGS["crema-votes-level"])

    def score(self, prediction: torch.Tensor, target: torch.Tensor) -> float:
        """Explained variance."""
        error = (self.family.predict(prediction) - target).square().mean().item()
        return 1 - error / target.var(correction=0).item()

    def scores(self, prediction: torch.Tensor, split: Split) -> dict[str, float]:
        disagree = split.groups["disagree"].bool()
        return {
            "r2": self.score(prediction, split.target),
            "r2_disagree": self.score(prediction[disagree], split.target[disagree]),
            "log_loss": self.family.nll(prediction, split.target).mean().item(),
        }


@lru_cache(maxsize=16)
def _data(root: str, target: Target, fold: int) -> Dataset:
    return crema_votes(root, target, fold)


def _in_words(claims: Sequence[Mapping[str, Any]]) -> str:
    texts = [
        f"{c['method']} over {c['rival']} {c['lead']:+.3f} [{c['low']:+.3f}, {c['high']:+.3f}], p = {c['p_holm']:.2g} (Holm)"
        for c in claims
    ]
    return "; ".join(texts) + "." * bool(texts)
