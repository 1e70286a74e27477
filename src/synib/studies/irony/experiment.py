"""Irony: face and voice contradict each other, and only the two together tell (App. "Irony"), on RAVDESS or CREMA-D."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from synib.checks import shown
from synib.data import Dataset, Split
from synib.measure import auc, best_shift, f1_by_class
from synib.models import FusionModel, resnet_model
from synib.objective import Categorical, Family
from synib.studies.base import Experiment, Row, describe_leads, grid, leads, option
from synib.studies.charts import Figure, Panel, Panels, Series, Table, label
from synib.studies.features import RAVDESS
from synib.studies.irony import settings as given
from synib.studies.irony.crema_d import CREMA_D
from synib.studies.irony.data import (
    ABOUT,
    FOLDS,
    FOLDS_ALIKE,
    MAPS,
    Made,
    Source,
    actors,
    of_features,
    of_media,
    without_model,
)
from synib.studies.irony.donors import Donors
from synib.tokens import take
from synib.training import Cell, Learner

TOLERATED = 0.01  # of macro F1 on validation, for a better ranking of irony
RIVAL = "vanilla"
OURS = ("synib", "experts")  # how SynIB's forms are called, to begin with
SHOWN = {"irony_auc": "irony AUC", "irony_f1": "irony F1", "macro_f1": "macro F1"}
SHIFTED = {"shifted_irony_f1": "irony F1", "shifted_macro_f1": "macro F1"}
AT_ONCE = 64  # examples that are predicted together, since those of CREMA-D are large
# What says something about irony without a model: → what tables call it. Its numbers are in every row of the results, once
# for each method, since only there the data are at hand.
ALONE = {"voice": "emotion of the voice", "face": "emotion of the face", "all": "everything is ironic"}


@dataclass(frozen=True)
class IronyRates(Experiment):
    """Irony: who finds faces and voices that contradict each other, and how rare may they be?"""

    name: ClassVar[str] = "irony"
    title: ClassVar[str] = "Irony: who finds faces and voices that contradict each other?"
    factors: ClassVar[tuple[str, ...]] = ("alpha", "donors", "fold", "assignment")
    family: ClassVar[Family] = Categorical()
    headline: ClassVar[str] = "irony_auc"
    judged: ClassVar[Mapping[str, str]] = {"irony AUC": "validation_irony_auc", "macro F1": "validation_macro_f1"}
    preferred: ClassVar[str] = (
        f"Of the candidates whose macro F1 on validation data is within {TOLERATED:g} of the best one's, that with the best "
        "AUC of irony is chosen"
    )
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_ironic": "irony_recall"}
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", "dropout", "detach_heads", "weights")
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"alpha": (0.5,), "fold": (0, 1, 2)}

    seeds: int = 1
    methods: tuple[str, ...] = tuple(given.OWN)
    source: Source = option(
        "ravdess", "Whose clips: ravdess (features) or crema-d (media, with --engine solo).", flag="data"
    )
    root: str = option("", "Folder of the data, or the one that holds it; $SYNIB_DATA by default.")
    alpha: tuple[float, ...] = option(
        (0.1, 0.5, 1.0, 2.0), "Ironic examples for each of a mean emotion; give it several times for several."
    )
    donor: tuple[str, ...] = option(("paper", "balanced"), "How donors are chosen, paper or balanced; may be repeated.")
    fold: tuple[int, ...] = option((0, 1, 2, 3, 4), "Which actors are tested, 0 to 4; may be repeated.")
    assignments: int = option(1, "How many draws of who is ironic, for each fold.")
    epochs: int = option(60, "Passes over the training data, at most.")
    weights: str = option("", "What crema-d's ResNets start from: a folder or an id of the hub; at random by default.")
    skip_broken: bool = option(False, "Leave out clips of crema-d whose files are missing or broken.")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = get_args(Donors)
        if strange := [one for one in self.donor if one not in known]:
            raise ValueError(f"donor is {' or '.join(map(repr, known))}; got {shown(strange[0])}.")
        if strange_folds := [one for one in self.fold if not 0 <= one < FOLDS]:
            raise ValueError(f"fold is a whole number from 0 to {FOLDS - 1}; got {strange_folds[0]}.")
        if strange_rates := [one for one in self.alpha if not 0 <= one <= self.classes - 1]:
            raise ValueError(f"alpha is a number from 0 to {self.classes - 1}; got {strange_rates[0]:g}.")
        of_media = {"--weights": self.weights, "--skip-broken": self.skip_broken}
        if self.source == "ravdess" and (given_too := [flag for flag, value in of_media.items() if value]):
            raise ValueError(f"{given_too[0]} is for --data crema-d; RAVDESS's features need none.")

    @property
    def about(self) -> str:  # type: ignore[override]  # of an experiment, and not of its class: there are two data sets
        return ABOUT[self.source]

    @property
    def classes(self) -> int:
        """The emotions, and irony."""
        return len(MAPS[self.source]) + 1

    def defaults(self) -> dict[str, dict[str, Any]]:
        epochs, fixed = {"epochs": self.epochs}, given.FIXED
        if self.source == "ravdess":
            return {m: given.COMMON | epochs | fixed.get(m, {}) | chosen for m, chosen in given.CHOSEN.items()}
        media = given.MEDIA_FIXED
        return {
            m: given.MEDIA | epochs | fixed.get(m, {}) | media.get(m, {}) | chosen
            for m, chosen in given.MEDIA_CHOSEN.items()
        }

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """27 for every method: three learning rates, three dropout rates, three values of what is its own."""
        return {m: grid(lr=(3e-4, 1e-3, 3e-3), dropout=(0.0, 0.3, 0.5), **own) for m, own in given.OWN.items()}

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
            Cell(self.name, method, point, settings[method] | self._of_data(point["fold"]), seed)
            for method in self.methods
            for point in self.points()
            for seed in range(self.seeds)
        ]

    def _of_data(self, fold: int) -> dict[str, Any]:
        """What cells have in their settings because of their data."""
        if self.source == "ravdess":
            # One fold has fewer actors than the others: models are trained together where splits are of equal size.
            return {"data": {"actors": actors(fold)}}
        return {"weights": self.weights or None, "data": {"of": self.source, "skip_broken": self.skip_broken}}

    def check(self) -> None:
        """As always; but before an hour is spent on reading media, which no setting depends on."""
        if self.source == "ravdess":
            super().check()
            return
        for number in range(2):
            CREMA_D.file(self.root or None, number)
        nothing = Split({}, torch.empty(0))
        for cell in {cell.program: cell for cell in self.cells()}.values():
            self.method(cell, Dataset(nothing, nothing, None))
            self.model(cell, Dataset(nothing, nothing, None))

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {m: {k: v for k, v in given.items() if k != "data"} for m, given in super().described().items()}

    @property
    def repeats(self) -> tuple[int, str]:
        return len(self.fold), "fold"

    @property
    def caution(self) -> str:
        said = []
        if len(self.fold) < FOLDS:
            said.append(f"Tested on {len(self.fold)} of {FOLDS} folds only.")
        if self.source == "crema-d" and self.epochs < given.MOST_EPOCHS:
            said.append(f"At most {self.epochs} of the paper's {given.MOST_EPOCHS} epochs.")
        return " ".join(said)

    def data(self, cell: Cell) -> Dataset:
        return self._made(cell).data

    def _made(self, cell: Cell) -> Made:
        """The cell's seed has no say in who is ironic, except in a search, where it takes the place of fold and assignment."""
        turn, fold = divmod(cell.seed, len(FOLDS_ALIKE))
        point: dict[str, Any] = {"fold": FOLDS_ALIKE[fold], "assignment": turn, **cell.factors}
        values = [point[f] for f in self.factors]
        if self.source == "ravdess":
            return of_features(str(RAVDESS.find(self.root or None)), *values)
        return of_media(str(CREMA_D.find(self.root or None)), self.skip_broken, *values)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        s = cell.settings
        if self.source == "crema-d":
            return resnet_model(
                self.classes, weights=s["weights"], dropout=s["dropout"], detach_heads=s["detach_heads"]
            )
        return FusionModel.mlp(
            data.widths,
            hidden=[s["hidden"], s["latent"]],
            classes=self.classes,
            head_hidden=[],
            fusion_hidden=[64],
            dropout=s["dropout"],
            detach_heads=s["detach_heads"],
        )

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """F1 and AUC at test, as they are and with irony's log-odds shifted on validation; and what needs no model."""
        irony = self.classes - 1
        on_validation, validated = _log_probabilities(learner, data.validation), data.validation.target.numpy()
        if data.test is None:
            each = f1_by_class(on_validation.argmax(1), validated, self.classes)
            ranked = auc(on_validation[:, irony], validated == irony)
            return {"validation_irony_auc": ranked, "validation_macro_f1": float(np.nanmean(each))}
        at_test, target = _log_probabilities(learner, data.test), data.test.target.numpy()
        moved = at_test.copy()
        moved[:, irony] += best_shift(on_validation, validated, of=irony)
        found = {"irony_auc": auc(at_test[:, irony], target == irony)}
        for prefix, scores in (("", at_test), ("shifted_", moved)):
            each = f1_by_class(scores.argmax(1), target, self.classes)
            found |= {f"{prefix}irony_f1": float(each[irony]), f"{prefix}macro_f1": float(np.nanmean(each))}
        return found | without_model(self._made(cell).irony)

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        published = given.PAPER.get(method, {}).get(metric)
        if self.source == "ravdess" or factors["donors"] != "paper" or published is None:
            return None
        return dict(zip(given.RATES, published, strict=True)).get(factors["alpha"])

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
            for metric in (*SHOWN, *SHIFTED):
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
        made += [self._shifted(found, donors) for donors in self.donor]
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

    def _shifted(self, found: Mapping[tuple[str, str, float, str], Row], donors: str) -> Table:
        columns = {f"α = {a:g}, {words}": (metric, a) for a in self.alpha for metric, words in SHIFTED.items()}
        rows = {m: [found.get((m, metric, a, donors)) for metric, a in columns.values()] for m in self.methods}
        note = (
            "n counts folds. To irony's log-probability is added what gives the best macro F1 on validation data, a number for "
            f"each model. How far each is above {RIVAL} is in summary.csv."
        )
        return Table(f"F1 with irony's line drawn on validation, {donors} donors", list(columns), rows, note=note)

    def _leads(self, metric: str, donors: str, found: Mapping[tuple[str, str, float, str], Row]) -> str:
        """SynIB against vanilla fusion, in words."""
        said = []
        for alpha in self.alpha:
            ours = [m for m in self.methods if m.startswith(OURS)]
            above = describe_leads({m: found.get((m, f"{metric}_over_{RIVAL}", alpha, donors)) for m in ours})
            said += [f"α = {alpha:g}: {', '.join(above)}"] if above else []
        if not said:
            return ""
        words = f"SynIB's lead over vanilla fusion in {SHOWN[metric]}, fold by fold, with 95 % intervals (Student's t)"
        return f"{words}: {'; '.join(said)}."

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        """A figure for each scheme; none of a single rate, whose lines would be points."""
        if len(self.alpha) == 1:
            return []

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
                    f"F1 of the class irony and mean F1 of all {self.classes} classes at test, as in the paper's figure; and "
                    "the AUC of irony's probability: whether ironic examples are ranked above others, wherever one draws the "
                    f"line. Mean over {len(self.fold)} folds{many}; bands, of vanilla fusion and SynIB's forms only, are ± one "
                    "standard error. Dashed: one modality alone, and, without a model, the voice's true emotion."
                ),
            )
            for donors in self.donor
        ]


def _log_probabilities(learner: Learner, split: Split) -> NDArray[np.float64]:
    said = []
    with torch.no_grad():
        for start in range(0, len(split), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            seen = {name: take(x, rows) for name, x in split.modalities.items()}
            said.append(learner.method.predict(learner.model, seen).double().log_softmax(1))
    return cast(NDArray[np.float64], torch.cat(said).numpy())


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
