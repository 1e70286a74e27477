"""Sentiment, sarcasm and humour (Sec. "Real-world benchmarks"): MOSI, MUStARD and UR-FUNNY."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, ClassVar, Literal, cast, get_args

import torch
from torch import Tensor

from synib.checks import shown
from synib.data import Dataset
from synib.measure import calibration, correct, shuffle_within_class, temperature
from synib.models import FusionModel, affect_model
from synib.objective import Categorical, Family
from synib.studies.affect.data import (
    FEATURES,
    INDEPENDENT,
    MULTIBENCH,
    OFFICIAL,
    OTHERS,
    TOGETHER,
    Form,
    Place,
    data_of,
    folder_of,
    known,
    macro_f1,
    together,
)  # fmt: skip
from synib.studies.affect.page import COLUMNS, CONTROL, RIVAL, about, chart, note, title, without_network, words
from synib.studies.affect.settings import MODALITIES, OF_MODEL, PAPER, candidates, defaults, own
from synib.studies.base import Experiment, Row, leads, option
from synib.studies.charts import Figure, Table
from synib.studies.features import FOLDS
from synib.tokens import take, values
from synib.training import Cell, Learner

Wanted = Literal["auto", "features", "sequences"]

COMPARED = ("test_accuracy", "macro_f1", "subset_accuracy")
REAL, SHUFFLED = "real", "shuffled"  # what a model was trained on
ALONE = (
    "alone_"  # begins what is known without a network: it is in every row of the results, and the same for all methods
)
ROWS = 256  # through a network at a time


@dataclass(frozen=True)
class Affect(Experiment):
    """MOSI, MUStARD and UR-FUNNY: who is right, and who where no modality tells alone?"""

    factors: ClassVar[tuple[str, ...]] = ("scheme", "fold", "training")
    family: ClassVar[Family] = Categorical()
    of_model: ClassVar[tuple[str, ...]] = OF_MODEL
    curves: ClassVar[bool] = False
    group: ClassVar[str] = "affect"
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 1, "fold": (1, 2), "methods": ("vanilla", "confidence", "synib-marginal", "experts"),
    }  # fmt: skip
    shared: ClassVar[tuple[str, ...]] = ()  # schemes whose folds are tested on the same examples

    seeds: int = 3
    methods: tuple[str, ...] = ("all",)
    form: Wanted = option(
        "auto",
        "features (one vector for each modality) or sequences (MultiBench's pickles); features where there are some.",
    )
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    scheme: tuple[str, ...] = option(
        (OFFICIAL,), "Of features, who is tested: official, or for MUStARD speaker-independent; may be repeated."
    )
    fold: tuple[int, ...] = option(tuple(range(FOLDS)), "Of features, which folds, 0 to 4; may be repeated.")

    def __post_init__(self) -> None:
        if self.form == "features" and self.source not in FEATURES:
            raise ValueError(f"{self.source} comes as sequences only: leave out --form, or give --form sequences.")
        if self.methods == ("all",) and self.form in get_args(Wanted):
            object.__setattr__(self, "methods", tuple(own(self.source, self.kind)))
        super().__post_init__()
        object.__setattr__(self, "title", title(self.source, self.kind))
        object.__setattr__(self, "about", about(self.source, self.kind))
        if self.kind == "sequences":
            given = [
                f.name for f in fields(self) if f.name in ("scheme", "fold") and getattr(self, f.name) != f.default
            ]
            if given:
                raise ValueError(f"Sequences come in one split, MultiBench's: leave out --{given[0]}.")
            return
        schemes = [scheme for scheme in TOGETHER[self.source] if scheme != OTHERS]
        if strange := [one for one in self.scheme if one not in schemes]:
            raise ValueError(f"scheme of {self.source} is {' or '.join(map(repr, schemes))}; got {shown(strange[0])}.")
        if strange_folds := [one for one in self.fold if not 0 <= one < FOLDS]:
            raise ValueError(f"fold is a whole number from 0 to {FOLDS - 1}; got {strange_folds[0]}.")

    @classmethod
    def quickly(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        fewer = {k: v for k, v in cls.quick.items() if k != "fold" or given.get("form") != "sequences"}
        return {**fewer, **given}

    @property
    def source(self) -> str:
        """Whose data: mosi, mustard or ur-funny."""
        return self.name.removeprefix(f"{self.group}-")

    @property
    def kind(self) -> Form:
        """The form that the data have here."""
        if self.form == "auto":
            return "features" if self.source in FEATURES else "sequences"
        return self.form

    def defaults(self) -> dict[str, dict[str, Any]]:
        return defaults(self.source, self.kind)

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        return candidates(self.source, self.kind)

    def searched_at(self) -> dict[str, Any]:
        """Without a fold: the seeds take turns."""
        return {"scheme": OFFICIAL if self.kind == "features" else MULTIBENCH, "training": REAL}

    def points(self) -> list[dict[str, Any]]:
        found = product(self.scheme, self.fold) if self.kind == "features" else [(MULTIBENCH, 0)]
        return [dict(zip(self.factors, (*point, REAL), strict=True)) for point in found]

    def cells(self) -> list[Cell]:
        """Every method at every fold; and beside vanilla fusion its control, trained on what tells nothing together."""
        settings = self.settings()
        return [
            Cell(self.name, method, point | {"training": training}, settings[method] | self._sizes(point), seed)
            for method in self.methods
            for point in self.points()
            for training in ((REAL, SHUFFLED) if method == RIVAL else (REAL,))
            for seed in range(self.seeds)
        ]

    def _sizes(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """What keeps folds of other sizes apart."""
        if self.kind == "sequences":
            return {}
        return {
            "data": {"scheme": point["scheme"], "folds": list(together(self.source, point["scheme"], point["fold"]))}
        }

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {m: {k: v for k, v in given.items() if k != "data"} for m, given in super().described().items()}

    @property
    def repeats(self) -> tuple[int, str]:
        return (self.seeds, "seed") if self.kind == "sequences" else (len(self.fold), "fold")

    @property
    def caution(self) -> str:
        if self.kind == "sequences" or len(self.fold) == FOLDS:
            return ""
        return f"{len(self.fold)} of {FOLDS} folds only."

    def _place(self, cell: Cell) -> Place:
        scheme = str(cell.factors["scheme"])
        fold = cast(int, cell.factors.get("fold", cell.seed % FOLDS if self.kind == "features" else 0))
        folder = folder_of(self.source, self.kind, self.root)
        return Place(self.source, self.kind, folder, scheme, fold, MODALITIES[self.source, self.kind])

    def data(self, cell: Cell) -> Dataset:
        data = data_of(self._place(cell))
        if cell.factors["training"] == REAL:
            return data
        mixed = shuffle_within_class(data.train.modalities, data.train.target, cell.seed)
        return replace(data, train=replace(data.train, modalities=mixed))

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        s = cell.settings
        if self.kind == "sequences":
            names = ("width", "layers", "heads", "feedforward", "dropout", "detach_heads")
            return affect_model(data.widths, **{name: s[name] for name in names})
        return FusionModel.mlp(
            data.widths,
            hidden=[s["hidden"], s["latent"]],
            classes=2,
            head_hidden=[],
            fusion_hidden=[64],
            dropout=s["dropout"],
            detach_heads=s["detach_heads"],
        )

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """At test: macro F1, calibration before and after a temperature, the synergy subset, what needs no network."""
        if data.test is None:
            return {}
        target = data.test.target
        on_validation, at_test = (_logits(learner, split.modalities) for split in (data.validation, data.test))
        t = temperature(on_validation, data.validation.target, self.family)
        found = {"macro_f1": macro_f1(at_test.argmax(1), target)}
        for name, logits in (("ece", at_test), ("ece_calibrated", at_test / t)):
            found[name] = calibration(logits, target, family=self.family, resamples=2).error
        subset, alone = known(self._place(cell))
        hits = correct(self.family, at_test, target)[subset]
        found |= {"temperature": t, "subset_accuracy": hits.mean().item(), "subset_size": float(len(hits))}
        return found | alone

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Mean, standard error and n over folds, each the mean of its seeds; of sequences, over seeds."""
        metrics = self.metrics(results)
        alone = [metric for metric in metrics if metric.startswith(ALONE)]
        named = [{**row, "method": CONTROL if row["training"] == SHUFFLED else row["method"]} for row in results]
        table: list[Row] = []
        for (scheme,), found in _grouped(named, "scheme").items():
            factors = {"scheme": scheme}
            rows = _means(found, self.repeats[1], metrics)
            for (method,), mine in _grouped(rows, "method").items():
                table += [self.row(method, factors, m, [r[m] for r in mine]) for m in metrics if m not in alone]
            for metric in alone:
                who, _, what = metric.removeprefix(ALONE).partition("_")
                numbers = [row[metric] for row in rows if row["method"] == rows[0]["method"]]
                # Without a seed there is nothing to repeat in the one split of sequences.
                table.append(
                    self.row(without_network(who), factors, what, numbers[: 1 if self.kind == "sequences" else None])
                )
            for metric, rival in (*((metric, RIVAL) for metric in COMPARED), ("subset_accuracy", CONTROL)):
                above = {m: n for m, n in leads(rows, metric, rival).items() if n and m != CONTROL}
                table += [self.row(m, factors, f"{metric}_over_{rival}", n) for m, n in above.items()]
        return table

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        if metric not in ("subset_accuracy", "test_accuracy") or factors["scheme"] == INDEPENDENT:
            return None
        numbers = PAPER[self.source].get(method)
        return None if numbers is None else numbers[metric == "test_accuracy"]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        made = []
        for (scheme,), rows in _grouped(summary, "scheme").items():
            who = dict.fromkeys((*self.methods, *(row["method"] for row in rows)))
            said = note(rows, self.methods, self.repeats, shared=scheme in (*self.shared, MULTIBENCH))
            made.append(Table.of_metrics(f"at test, {words(scheme)}", COLUMNS, rows, who, note=said))
        return made

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        data, over = self.title.partition(":")[0], f"{self.repeats[1]}s"
        return [
            chart("figure" if i == 0 else f"figure-{scheme}", f"{data}, {words(scheme)}", rows, self.methods, over)
            for i, ((scheme,), rows) in enumerate(_grouped(summary, "scheme").items())
        ]


def _logits(learner: Learner, modalities: Mapping[str, Any]) -> Tensor:
    n = len(values(next(iter(modalities.values()))))
    with torch.no_grad():
        return torch.cat(
            [
                learner.method.predict(
                    learner.model, {m: take(x, slice(start, start + ROWS)) for m, x in modalities.items()}
                )
                for start in range(0, n, ROWS)
            ]
        )


def _grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[c] for c in columns), []).append(row)
    return groups


def _means(results: Sequence[Row], unit: str, metrics: Sequence[str]) -> list[Row]:
    """A row for each method and fold (or seed): means over what else varies. It takes the place of a seed in comparisons."""
    made: list[Row] = []
    for (method, place), rows in _grouped(results, "method", unit).items():
        numbers = {metric: [row[metric] for row in rows if row[metric] is not None] for metric in metrics}
        made.append(
            {"method": method, "seed": place, **{m: sum(n) / len(n) if n else None for m, n in numbers.items()}}
        )
    return made


@dataclass(frozen=True)
class AffectMOSI(Affect):
    """Is an utterance positive? CMU-MOSI."""

    name: ClassVar[str] = "affect-mosi"
    title: ClassVar[str] = title("mosi", "features")
    about: ClassVar[str] = about("mosi", "features")
    shared: ClassVar[tuple[str, ...]] = (OFFICIAL,)


@dataclass(frozen=True)
class AffectMUStARD(Affect):
    """Is a line of a TV show sarcastic? MUStARD."""

    name: ClassVar[str] = "affect-mustard"
    title: ClassVar[str] = title("mustard", "features")
    about: ClassVar[str] = about("mustard", "features")
    shared: ClassVar[tuple[str, ...]] = (INDEPENDENT,)

    scheme: tuple[str, ...] = (OFFICIAL, INDEPENDENT)

    def searched_at(self) -> dict[str, Any]:
        return super().searched_at() | ({"scheme": OTHERS} if self.kind == "features" else {})


@dataclass(frozen=True)
class AffectURFunny(Affect):
    """Is the punchline of a talk funny? UR-FUNNY."""

    name: ClassVar[str] = "affect-ur-funny"
    title: ClassVar[str] = title("ur-funny", "sequences")
    about: ClassVar[str] = about("ur-funny", "sequences")
    quick: ClassVar[Mapping[str, Any]] = {k: v for k, v in Affect.quick.items() if k != "fold"}
