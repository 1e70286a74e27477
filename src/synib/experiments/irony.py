"""Irony: face and voice contradict each other, and only the two together tell (App. "Irony"), on RAVDESS's features."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data import Dataset, features
from synib.data.donors import Donors
from synib.data.irony import SPLITS, Irony
from synib.data.ravdess import CONTRADICTIONS, FOLDS
from synib.engines import Cell, Learner
from synib.experiments.base import Experiment, Row, grid, leads, option, told
from synib.experiments.charts import Figure, Panel, Panels, Series, Table, label
from synib.kinds import shown
from synib.models import FusionModel
from synib.objective import Categorical, Family

Source = Literal["ravdess", "crema-d"]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]

COMMON = {"batch_size": 64, "unimodal_weight": 1.0, "hidden": 256, "latent": 64, "dropout": 0.3, "detach_heads": True,
          "weight_decay": 1e-4}  # fmt: skip
# What is each method's own, and the three values of it that a search tries; those without any search the weight decay.
DECAYS: dict[str, Sequence[Any]] = {"weight_decay": (1e-5, 1e-4, 1e-3)}
OWN: dict[str, dict[str, Sequence[Any]]] = {
    "unimodal-video": DECAYS,
    "unimodal-audio": DECAYS,
    "ensemble": DECAYS,
    "vanilla": DECAYS,
    "masked-random": {"p": (0.3, 0.5, 0.7)},
    "confidence": {"weight": (0.3, 1.0, 3.0)},
    "ogm": {"alpha": (0.1, 0.3, 1.0)},
    "agm": {"alpha": (0.3, 1.0, 3.0)},
    "dnr": {"strength": (1.0, 3.0, 10.0)},
    "mmpareto": {"unimodal_weight": (1.0, 0.3, 0.1)},
    "reconboost": {"reconcile": (0.1, 0.3, 1.0)},
    "mcr": {"game": (0.01, 0.1, 1.0)},
    "synib-random": {"weight": (0.3, 1.0, 3.0)},
    "synib-learned": {"weight": (0.3, 1.0, 3.0)},
    "synib-marginal": {"weight": (0.3, 1.0, 3.0)},
    "experts": {"weight": (1.0, 3.0, 10.0)},
}
FIXED: dict[str, dict[str, Any]] = {
    "dnr": {"every": 7},
    "reconboost": {"stage": 4, "rectify": 2},  # rounds of 10 epochs: training ends with the rectification of one
    "mmpareto": {"detach_heads": False},
    "synib-random": {"p": 1.0, "noise": "shuffled"},
    "synib-learned": {"steps": 4, "mask_lr": 0.5, "sparsity": 1e-2},
    "synib-marginal": {"draws": 16},
    "experts": {"draws": 16},
}
# By `synib reproduce search --of irony --seeds 12`: on validation, at α = .5 with the paper's donors.
CHOSEN: dict[str, dict[str, Any]] = {
    "unimodal-video": {"lr": 0.0003, "dropout": 0.0, "weight_decay": 1e-05},
    "unimodal-audio": {"lr": 0.0003, "dropout": 0.5, "weight_decay": 0.0001},
    "ensemble": {"lr": 0.0003, "dropout": 0.5, "weight_decay": 0.001},
    "vanilla": {"lr": 0.001, "dropout": 0.0, "weight_decay": 1e-05},
    "masked-random": {"lr": 0.003, "dropout": 0.5, "p": 0.3},
    "confidence": {"lr": 0.003, "dropout": 0.0, "weight": 0.3},
    "ogm": {"lr": 0.003, "dropout": 0.0, "alpha": 1.0},
    "agm": {"lr": 0.001, "dropout": 0.3, "alpha": 3.0},
    "dnr": {"lr": 0.003, "dropout": 0.0, "strength": 10.0},
    "mmpareto": {"lr": 0.001, "dropout": 0.0, "unimodal_weight": 0.3},
    "reconboost": {"lr": 0.0003, "dropout": 0.5, "reconcile": 0.1},
    "mcr": {"lr": 0.001, "dropout": 0.5, "game": 1.0},
    "synib-random": {"lr": 0.001, "dropout": 0.5, "weight": 1.0},
    "synib-learned": {"lr": 0.001, "dropout": 0.5, "weight": 0.3},
    "synib-marginal": {"lr": 0.0003, "dropout": 0.3, "weight": 1.0},
    "experts": {"lr": 0.001, "dropout": 0.5, "weight": 1.0},
}
TOLERATED = 0.01  # of macro F1 on validation, for a better ranking of irony
RIVAL = "vanilla"
OURS = ("synib", "experts")  # how SynIB's forms are called, to begin with
SHOWN = {"irony_auc": "irony AUC", "irony_f1": "irony F1", "macro_f1": "macro F1"}
# What says something about irony without a model: → what tables call it. Its numbers are in every row of the results, once
# for each method, since only there the data are at hand.
ALONE = {"voice": "emotion of the voice", "face": "emotion of the face", "all": "everything is ironic"}


@dataclass(frozen=True)
class IronyRates(Experiment):
    """Irony on RAVDESS: who finds faces and voices that contradict each other, and how rare may they be?"""

    name: ClassVar[str] = "irony"
    title: ClassVar[str] = "Irony: who finds faces and voices that contradict each other?"
    about: ClassVar[str] = (
        "Actors of RAVDESS in eight emotions: statistics of their voices (Whisper) and their faces (action units), each actor "
        "standardised by the actor's own clips. In some clips the voice is another clip's of a contradicting emotion, and the "
        "label is a ninth class, irony: α times as many as a mean emotion has, in every split. Donors are chosen as in the "
        "paper, whose map lets the voice alone tell much about irony, or balanced, so that neither voice nor face tells "
        "anything alone. Five folds: an actor at test is in no training or validation example of the fold. Settings were "
        "not searched yet: they are the middle of each method's candidates. Actors at test are standardised by their own clips "
        "too, without labels. Experts also fit to validation labels how they are added up. The paper's own numbers are of "
        "CREMA-D-Irony (six emotions, ResNets on frames and spectrograms), so none stand beside these."
    )
    factors: ClassVar[tuple[str, ...]] = ("alpha", "donors", "fold", "assignment")
    family: ClassVar[Family] = Categorical()
    headline: ClassVar[str] = "irony_auc"
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_ironic": "irony_recall"}
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", "dropout", "detach_heads")
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"alpha": (0.5,), "fold": (0, 1, 2)}

    seeds: int = 1
    methods: tuple[str, ...] = tuple(OWN)
    source: Source = option("ravdess", "Whose clips: ravdess; crema-d is to come.", flag="data")
    root: str = option("", "Folder of RAVDESS's features.npz, or the one that holds ravdess; $SYNIB_DATA by default.")
    alpha: tuple[float, ...] = option(
        (0.1, 0.5, 1.0, 2.0), "Ironic examples for each of a mean emotion; give it several times for several."
    )
    donor: tuple[str, ...] = option(("paper", "balanced"), "How donors are chosen, paper or balanced; may be repeated.")
    fold: tuple[int, ...] = option((0, 1, 2, 3, 4), "Which actors are tested, 0 to 4; may be repeated.")
    assignments: int = option(1, "How many draws of who is ironic, for each fold.")
    epochs: int = option(60, "Passes over the training data.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source != "ravdess":
            raise ValueError(
                "irony needs frozen features of crema-d's clips, which synib does not make yet (synib.data.crema_d reads its "
                "media files): leave out --data, or give --data ravdess."
            )
        known = get_args(Donors)
        if strange := [one for one in self.donor if one not in known]:
            raise ValueError(f"donor is {' or '.join(map(repr, known))}; got {shown(strange[0])}.")
        if strange_folds := [one for one in self.fold if not 0 <= one < len(FOLDS)]:
            raise ValueError(f"fold is a whole number from 0 to {len(FOLDS) - 1}; got {strange_folds[0]}.")
        if strange_rates := [one for one in self.alpha if not 0 <= one <= len(CONTRADICTIONS)]:
            raise ValueError(f"alpha is a number from 0 to {len(CONTRADICTIONS)}; got {strange_rates[0]:g}.")

    def defaults(self) -> dict[str, dict[str, Any]]:
        common = COMMON | {"epochs": self.epochs}
        return {m: common | FIXED.get(m, {}) | chosen for m, chosen in CHOSEN.items()}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """27 for every method: three learning rates, three dropout rates, three values of what is its own."""
        return {m: grid(lr=(3e-4, 1e-3, 3e-3), dropout=(0.0, 0.3, 0.5), **own) for m, own in OWN.items()}

    def searched_at(self) -> dict[str, Any]:
        """Without a fold and an assignment: the seeds take turns at folds of one size, each turn with other ironic clips."""
        return {"alpha": 0.5, "donors": "paper"}

    def prefer(self, scores: Sequence[Mapping[str, float]]) -> int:
        """The best ranking of irony among the candidates whose macro F1 is within ``TOLERATED`` of the best one's."""
        enough = max(score["validation_macro_f1"] for score in scores) - TOLERATED
        good = [i for i, score in enumerate(scores) if score["validation_macro_f1"] >= enough]
        return max(good, key=lambda i: scores[i]["validation_irony_auc"])

    def points(self) -> list[dict[str, Any]]:
        values = (self.alpha, self.donor, self.fold, range(self.assignments))
        return [dict(zip(self.factors, point, strict=True)) for point in product(*values)]

    def cells(self) -> list[Cell]:
        settings = self.settings()
        return [
            # One fold has fewer actors than the others: models are trained together where splits are of equal size.
            Cell(self.name, method, point, settings[method] | {"data": {"actors": _actors(point["fold"])}}, seed)
            for method in self.methods
            for point in self.points()
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {m: {k: v for k, v in given.items() if k != "data"} for m, given in super().described().items()}

    @property
    def repeats(self) -> tuple[int, str]:
        return len(self.fold), "fold"

    @property
    def caution(self) -> str:
        if len(self.fold) == len(FOLDS):
            return ""
        return f"Tested on {len(self.fold)} of {len(FOLDS)} folds only."

    def data(self, cell: Cell) -> Dataset:
        return self._made(cell).data

    def _made(self, cell: Cell) -> "Made":
        """The cell's seed has no say in who is ironic, except in a search, where it takes the place of fold and assignment."""
        turn, fold = divmod(cell.seed, len(FOLDS_ALIKE))
        point: dict[str, Any] = {"fold": FOLDS_ALIKE[fold], "assignment": turn, **cell.factors}
        return _make(str(features.RAVDESS.find(self.root or None)), *(point[f] for f in self.factors))

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        s = cell.settings
        return FusionModel.mlp(
            data.widths,
            hidden=[s["hidden"], s["latent"]],
            classes=len(CONTRADICTIONS) + 1,
            head_hidden=[],
            fusion_hidden=[64],
            dropout=s["dropout"],
            detach_heads=s["detach_heads"],
        )

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """F1 and AUC at test, as they are and with irony's log-odds shifted on validation; and what needs no model."""
        at_validation, on_validation = (
            _log_probabilities(learner, data.validation.modalities),
            data.validation.target.numpy(),
        )
        if data.test is None:
            each = f1_by_class(at_validation.argmax(1), on_validation, at_validation.shape[1])
            ranked = auc(at_validation[:, -1], on_validation == at_validation.shape[1] - 1)
            return {"validation_irony_auc": ranked, "validation_macro_f1": float(np.nanmean(each))}
        at_test, target = _log_probabilities(learner, data.test.modalities), data.test.target.numpy()
        shift = best_shift(at_validation, on_validation)
        moved = at_test + shift * (np.arange(at_test.shape[1]) == at_test.shape[1] - 1)
        told = {"irony_auc": auc(at_test[:, -1], target == at_test.shape[1] - 1)}
        for prefix, scores in (("", at_test), ("shifted_", moved)):
            each = f1_by_class(scores.argmax(1), target, scores.shape[1])
            told |= {f"{prefix}irony_f1": float(each[-1]), f"{prefix}macro_f1": float(np.nanmean(each))}
        return told | without_model(self._made(cell).irony)

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Mean, standard error and n over folds; a fold counts as the mean of its seeds and assignments."""
        results = [{self.names.get(name, name): value for name, value in row.items()} for row in results]
        metrics = self.metrics(results)
        alone = [metric for metric in metrics if metric.partition("_")[0] in ALONE]
        by_fold = _means(results, metrics)
        table: list[Row] = []
        for (method, alpha, donors), rows in _grouped(by_fold, "method", "alpha", "donors").items():
            factors = {"alpha": alpha, "donors": donors}
            shown_metrics = [metric for metric in metrics if metric not in alone]
            table += [self.row(method, factors, m, [row[m] for row in rows]) for m in shown_metrics]
        for (alpha, donors), rows in _grouped(by_fold, "alpha", "donors").items():
            factors = {"alpha": alpha, "donors": donors}
            for metric in alone:  # the same for all methods
                who, _, what = metric.partition("_")
                numbers = [row[metric] for row in rows if row["method"] == rows[0]["method"]]
                table.append(self.row(ALONE[who], factors, what, numbers))
            # A fold takes the place of a seed: methods are compared on the same actors and the same ironic examples.
            for metric in SHOWN:
                above = leads([{**row, "seed": row["fold"]} for row in rows], metric, RIVAL)
                table += [self.row(m, factors, f"{metric}_over_{RIVAL}", n) for m, n in above.items() if n]
        return table

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        found = {(r["method"], r["metric"], r["alpha"], r["donors"]): r for r in summary}
        over = f"_over_{RIVAL}"
        compared = any(metric.endswith(over) for _, metric, _, _ in found)
        rates = [(f"α = {a:g}", a) for a in self.alpha]
        made = []
        for donors, (metric, words) in product(self.donor, SHOWN.items()):
            columns = {
                f"{at}{more}": (metric + suffix, a)
                for at, a in rates
                for more, suffix in (("", ""), (", above vanilla", over))[: 1 + compared]
            }
            rows = {m: [found.get((m, what, a, donors)) for what, a in columns.values()] for m in self.methods}
            note = f"n counts folds. {self._leads(metric, donors, found)}".strip()
            made.append(Table(f"{words}, {donors} donors", list(columns), rows, note=note))
        columns = {f"{at}, {words}": (metric, a) for metric, words in (("f1", "F1"), ("auc", "AUC")) for at, a in rates}
        alone = {
            f"{who}, {donors} donors": [found.get((who, f"irony_{what}", a, donors)) for what, a in columns.values()]
            for donors, who in product(self.donor, ALONE.values())
        }
        note = (
            "n counts folds. How often an emotion is ironic is counted on training examples, and told of test examples by "
            "their true emotion. A modality that tells nothing alone has an AUC of 0.5, and the F1 of calling all ironic."
        )
        return [*made, Table("irony without a model", list(columns), alone, of="what is known", note=note)]

    def _leads(self, metric: str, donors: str, found: Mapping[tuple[str, str, float, str], Row]) -> str:
        """SynIB against vanilla fusion, in words."""
        said = []
        for alpha in self.alpha:
            ours = [m for m in self.methods if m.startswith(OURS)]
            above = told({m: found.get((m, f"{metric}_over_{RIVAL}", alpha, donors)) for m in ours})
            said += [f"α = {alpha:g}: {', '.join(above)}"] if above else []
        if not said:
            return ""
        words = f"SynIB's lead over vanilla fusion in {SHOWN[metric]}, fold by fold, with 95 % intervals (Student's t)"
        return f"{words}: {'; '.join(said)}."

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        def line(who: str, metric: str, donors: str, words: str, dashed: bool = False) -> Series:
            rows = [r for r in summary if (r["method"], r["metric"], r["donors"]) == (who, metric, donors)]
            if not who.startswith((RIVAL, *OURS)):  # so many bands would hide each other
                rows = [{**row, "se": None} for row in rows]
            return Series.of(rows, "alpha", who, words, dashed)

        def panel(metric: str, title: str, donors: str) -> Panel:
            lines = [line(m, metric, donors, label(m), m.startswith("unimodal")) for m in self.methods]
            if metric != "macro_f1":
                lines.append(line(ALONE["voice"], metric, donors, "voice, without a model", dashed=True))
            return Panel(title, lines, y=SHOWN[metric], level=0.5 if metric == "irony_auc" else None)

        # The paper's two, and ours.
        titles = {"irony_f1": "irony recognition", "macro_f1": "all classes", "irony_auc": "ranking of irony"}
        many = "" if (each := self.seeds * self.assignments) == 1 else f", each the mean of {each} models"
        return [
            Panels(
                file="figure" if donors == self.donor[0] else f"figure-{donors}",
                title=f"Irony by how much of it there is, {donors} donors",
                x="irony rate α",
                y="",
                panels=[panel(metric, title, donors) for metric, title in titles.items()],
                columns=3,
                reading=(
                    "F1 of the class irony and mean F1 of all nine classes at test, as in the paper's figure; and the AUC of "
                    "irony's probability: whether ironic examples are ranked above others, wherever one draws the line. "
                    f"Mean over {len(self.fold)} folds{many}; bands, of vanilla fusion and SynIB's forms only, are ± one "
                    "standard error. Dashed: one modality alone, and, without a model, the voice's true emotion."
                ),
            )
            for donors in self.donor
        ]


class Made(NamedTuple):
    """A cell's data, and the assignment that they were made by."""

    irony: Irony
    data: Dataset


@lru_cache(maxsize=64)
def _make(folder: str, alpha: float, donors: Donors, fold: int, assignment: int) -> Made:
    clips = _clips(folder, fold)
    made = Irony.make(clips.ids, clips.label, CONTRADICTIONS, clips.splits, alpha, donors=donors, seed=assignment)
    return Made(made, made.dataset(clips.video, clips.audio))


class Clips(NamedTuple):
    """All clips in the order of their names, and who is in which split."""

    ids: list[str]
    label: NDArray[np.int64]
    video: Tensor
    audio: Tensor
    splits: dict[str, NDArray[np.int64]]


@lru_cache(maxsize=len(FOLDS))
def _clips(folder: str, fold: int) -> Clips:
    # Standardised by actor, features are the same in every fold.
    data = features.ravdess(folder, fold=fold, standardise="actor")
    assert data.test is not None
    parts = (data.train, data.validation, data.test)
    ids = [name for part in parts for name in part.columns["id"]]
    order = np.argsort(np.array(ids), kind="stable")
    place = np.argsort(order)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    splits = {name: np.sort(rows) for name, rows in zip(SPLITS, np.split(place, ends), strict=True)}
    x = {m: torch.cat([cast(Tensor, part.modalities[m]) for part in parts])[order] for m in ("visual", "audio")}
    label_of = torch.cat([part.target for part in parts]).numpy()[order]
    return Clips([ids[i] for i in order], label_of, x["visual"], x["audio"], splits)


def _actors(fold: int) -> list[int]:
    """How many actors train, validate and are tested."""
    validation, test = (len(FOLDS[k % len(FOLDS)]) for k in (fold + 1, fold))
    return [sum(map(len, FOLDS)) - validation - test, validation, test]


FOLDS_ALIKE = [fold for fold in range(len(FOLDS)) if _actors(fold) == _actors(0)]


def _log_probabilities(learner: Learner, modalities: Mapping[str, Any]) -> Numbers:
    with torch.no_grad():
        predicted = learner.method.predict(learner.model, modalities)
    return cast(Numbers, predicted.double().log_softmax(1).numpy())


def auc(score: Numbers, positive: Flags) -> float:
    """How often a positive example is ranked above another; a tie is half. NaN where one kind is missing."""
    ours, theirs = score[positive][:, None], score[~positive]
    return float(((ours > theirs) + 0.5 * (ours == theirs)).mean()) if ours.size and theirs.size else math.nan


def f1_by_class(predicted: NDArray[np.int64], target: NDArray[np.int64], classes: int) -> Numbers:
    """F1 of each class; NaN for one that neither occurs nor is predicted."""
    hits = np.bincount(target[predicted == target], minlength=classes)
    both = np.bincount(target, minlength=classes) + np.bincount(predicted, minlength=classes)
    return cast(Numbers, np.where(both > 0, 2 * hits / np.maximum(both, 1), math.nan))


def best_shift(log_probabilities: Numbers, target: NDArray[np.int64]) -> float:
    """What to add to the last class's log-probability for the best macro F1; of several, what changes least.

    A rare class is hardly ever the likeliest, also where it is ranked well: where to draw the line is a choice of its own.
    """
    others = log_probabilities[:, :-1]
    classes = log_probabilities.shape[1]
    rest, needed = (
        others.argmax(1),
        others.max(1) - log_probabilities[:, -1],
    )  # above it an example is called the last class
    steps = np.sort(needed)
    tried = np.concatenate([[0.0, steps[0] - 1.0, steps[-1] + 1.0], (steps[1:] + steps[:-1]) / 2])
    tried = tried[np.argsort(np.abs(tried), kind="stable")]
    called = np.where(tried[:, None] > needed, classes - 1, rest)
    scores = [np.nanmean(f1_by_class(one, target, classes)) for one in called]
    return float(tried[int(np.argmax(scores))])


def without_model(irony: Irony) -> dict[str, float]:
    """Irony F1 and AUC at test of who knows the true emotion of one modality, and has counted in training."""
    train, test = irony.splits["train"], irony.splits["test"]
    last = len(irony.classes) - 1
    ironic = test.label == last
    told = {"all_irony_f1": _f1(ironic, np.ones_like(ironic)), "all_irony_auc": 0.5}
    for who, modality in (("voice", "audio"), ("face", "video")):
        known, asked = (irony.labels[getattr(t, modality)] for t in (train, test))
        counts, all_counts = (np.bincount(k, minlength=last) for k in (known[train.label == last], known))
        rate = counts / np.maximum(all_counts, 1)
        flagged = [irony.classes.index(name) for name in irony.leak("train")[modality].flagged]
        told |= {
            f"{who}_irony_f1": _f1(ironic, np.isin(asked, flagged)),
            f"{who}_irony_auc": auc(rate[asked], ironic),
        }
    return told


def _f1(truth: Flags, said: Flags) -> float:
    both = int(truth.sum() + said.sum())
    return 2 * int((truth & said).sum()) / both if both else math.nan


def _grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[c] for c in columns), []).append(row)
    return groups


def _means(results: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """A row for each method, rate, scheme and fold: the means over its seeds and assignments."""
    columns = ("method", "alpha", "donors", "fold")
    made: list[Row] = []
    for key, rows in _grouped(results, *columns).items():
        numbers = {metric: [row[metric] for row in rows if row[metric] is not None] for metric in metrics}
        means = {metric: sum(n) / len(n) if n else None for metric, n in numbers.items()}
        made.append({**dict(zip(columns, key, strict=True)), **means})
    return made
