"""Sentiment, sarcasm and humour (Sec. "Real-world benchmarks"): MOSI, MUStARD and UR-FUNNY."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, ClassVar, Literal, cast, get_args

from synib.checks import shown
from synib.data import Dataset
from synib.measure import correct
from synib.models import FusionModel, affect_model
from synib.objective import Categorical, Family
from synib.studies.affect.baselines import PREFIX, baselines, macro_f1
from synib.studies.affect.data import (
    FEATURES,
    INDEPENDENT,
    MODALITIES,
    MULTIBENCH,
    OFFICIAL,
    OTHER_SHOWS,
    SIMILAR_FOLDS,
    DataSpec,
    Form,
    data_folder,
    load,
    similar_folds,
)
from synib.studies.affect.page import COLUMNS, about, baseline_name, chart, note, scheme_name, title
from synib.studies.affect.paper import PAPER
from synib.studies.aggregate import grouped
from synib.studies.base import Row, option, settings_of
from synib.studies.candidates import own_values
from synib.studies.charts import Figure, Table
from synib.studies.control import CONTROL, REAL, RIVAL, Controlled, shuffled
from synib.studies.evaluation import calibration_scores, predictions, vector_model
from synib.studies.features import FOLDS
from synib.training import Cell, Learner

FormOption = Literal["auto", "features", "sequences"]

ROWS = 256  # in a batch of predictions
OF_NETWORK = ("width", "layers", "heads", "feedforward", "dropout", "detach_heads")  # MultiBench's, for sequences
# settings.json, features: learning rate, dropout and each method's own setting were chosen on validation accuracy over 10
# seeds, 2 a fold, by `synib reproduce search --of affect-mosi` and `--of affect-mustard`. By `synib reproduce forms`, on
# validation data of other tasks, the weight of SynIB's term falls to 0 over four fifths of the training steps (MUStARD: of the
# smallest fold's), and the experts' draws are unbiased. Sequences: MultiBench's network and the paper's training of it;
# learning rates and the settings of SynIB's masks are those that the paper reports. ReconBoost's rounds take 10 epochs, so
# training ends with a rectification; MMPareto's heads are not detached, since with detached ones it has nothing to balance.
DROPOUT: dict[Form, tuple[float, float]] = {"features": (0.0, 0.5), "sequences": (0.1, 0.3)}


@dataclass(frozen=True)
class Affect(Controlled):
    """MOSI, MUStARD and UR-FUNNY: accuracy on all examples, and on those that no modality predicts alone."""

    factors: ClassVar[tuple[str, ...]] = ("scheme", "fold", "training")
    averaged: ClassVar[tuple[str, ...]] = ("fold", "training")
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {
        "test_accuracy": (RIVAL,), "macro_f1": (RIVAL,), "subset_accuracy": (RIVAL, CONTROL),
    }  # fmt: skip
    family: ClassVar[Family] = Categorical()
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", *OF_NETWORK)
    curves: ClassVar[bool] = False
    group: ClassVar[str] = "affect"
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 1, "fold": (1, 2), "methods": ("vanilla", "confidence", "synib-marginal", "experts"),
    }  # fmt: skip
    shared_test: ClassVar[tuple[str, ...]] = ()  # schemes whose folds are tested on the same examples

    seeds: int = 3
    methods: tuple[str, ...] = ("all",)
    form: FormOption = option(
        "auto",
        "features (one vector per modality) or sequences (MultiBench's pickles); by default features if available.",
    )
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    scheme: tuple[str, ...] = option(
        (OFFICIAL,), "Split of features: official, or for MUStARD speaker-independent; may be repeated."
    )
    fold: tuple[int, ...] = option(
        tuple(range(FOLDS)), "Folds of features, 0 to 4; may be repeated.", among=range(FOLDS)
    )

    def __post_init__(self) -> None:
        if self.form == "features" and self.source not in FEATURES:
            raise ValueError(f"{self.source} is available only as sequences; got form='features'.")
        if self.methods == ("all",) and self.form in get_args(FormOption):
            object.__setattr__(self, "methods", tuple(self.defaults()))
        super().__post_init__()
        if self.kind == "sequences":
            for f in fields(self):
                if f.name in ("scheme", "fold") and getattr(self, f.name) != f.default:
                    raise ValueError(
                        f"Sequences have a single split, MultiBench's; got {f.name}={getattr(self, f.name)}."
                    )
            return
        schemes = [scheme for scheme in SIMILAR_FOLDS[self.source] if scheme != OTHER_SHOWS]
        if unknown := [scheme for scheme in self.scheme if scheme not in schemes]:
            raise ValueError(
                f"scheme of {self.source} must be {' or '.join(map(repr, schemes))}; got {shown(unknown[0])}."
            )

    @classmethod
    def quickly(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        fewer = {k: v for k, v in cls.quick.items() if k != "fold" or options.get("form") != "sequences"}
        return {**fewer, **options}

    @property
    def title(self) -> str:  # type: ignore[override]  # depends on the form of the data, which is an option
        return title(self.source, self.kind)

    @property
    def about(self) -> str:  # type: ignore[override]
        return about(self.source, self.kind)

    @property
    def source(self) -> str:
        """The data set: mosi, mustard or ur-funny."""
        return self.name.removeprefix(f"{self.group}-")

    @property
    def kind(self) -> Form:
        """The form of the data, with ``auto`` resolved."""
        if self.form == "auto":
            return "features" if self.source in FEATURES else "sequences"
        return self.form

    def defaults(self) -> dict[str, dict[str, Any]]:
        second_form = self.kind == "sequences" and self.source in FEATURES
        return settings_of(__package__)[f"{self.name}-sequences" if second_form else self.name]

    @property
    def tried(self) -> Mapping[str, Sequence[Any]]:  # type: ignore[override]
        """With three values of a method-specific setting, 24 candidates for every method."""
        return {"lr": (1e-4, 3e-4, 1e-3, 3e-3), "dropout": DROPOUT[self.kind]}

    @property
    def own(self) -> Mapping[str, Any]:  # type: ignore[override]
        return own_values(MODALITIES[self.source, self.kind])

    def searched_at(self) -> dict[str, Any]:
        """Without a fold: the seeds rotate through the folds."""
        return {"scheme": OFFICIAL if self.kind == "features" else MULTIBENCH, "training": REAL}

    def points(self) -> list[dict[str, Any]]:
        splits = product(self.scheme, self.fold) if self.kind == "features" else [(MULTIBENCH, 0)]
        return [dict(zip(self.factors, (*split, REAL), strict=True)) for split in splits]

    def fixed_at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A setting that differs between folds of different sizes, whose models cannot be trained together."""
        if self.kind == "sequences":
            return {}
        folds = similar_folds(self.source, point["scheme"], point["fold"])
        return {"data": {"scheme": point["scheme"], "folds": list(folds)}}

    @property
    def repeats(self) -> tuple[int, str]:
        return (self.seeds, "seed") if self.kind == "sequences" else (len(self.fold), "fold")

    @property
    def caution(self) -> str:
        if self.kind == "sequences" or len(self.fold) == FOLDS:
            return ""
        return f"Only {len(self.fold)} of {FOLDS} folds."

    def data_spec(self, cell: Cell) -> DataSpec:
        """The data of a cell. In a search, where cells have no fold, the seed determines it."""
        fold = cast(int, cell.factors.get("fold", cell.seed % FOLDS if self.kind == "features" else 0))
        folder = data_folder(self.source, self.kind, self.root)
        return DataSpec(self.source, self.kind, folder, str(cell.factors["scheme"]), fold)

    def data(self, cell: Cell) -> Dataset:
        data = load(self.data_spec(cell))
        return data if cell.factors["training"] == REAL else replace(data, train=shuffled(data.train, cell.seed))

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        if self.kind == "sequences":
            return affect_model(data.widths, **{name: cell.settings[name] for name in OF_NETWORK})
        return vector_model(data.widths, cell.settings, classes=2)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """At test: macro F1, calibration, accuracy on the synergy subset, and the baselines without a network."""
        if data.test is None:
            return {}
        on_validation, on_test = (
            predictions(learner, split.modalities, ROWS) for split in (data.validation, data.test)
        )
        subset, baseline_scores = baselines(self.data_spec(cell))
        hits = correct(self.family, on_test, data.test.target)[subset]
        return {
            "macro_f1": macro_f1(on_test.argmax(1), data.test.target),
            **calibration_scores(on_validation, on_test, data, self.family),
            "subset_accuracy": hits.mean().item(),
            "subset_size": float(len(hits)),
            **baseline_scores,
        }

    def rule(self, metric: str) -> tuple[str, str] | None:
        who, _, what = metric.removeprefix(PREFIX).partition("_")
        return (baseline_name(who), what) if metric.startswith(PREFIX) else None

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """The standard tables, for each scheme."""
        return [row for rows in grouped(super().summary(results), "scheme").values() for row in rows]

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        return None if factors["scheme"] == INDEPENDENT else super().paper(method, factors, metric)

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        tables = []
        for (scheme,), rows in grouped(summary, "scheme").items():
            names = dict.fromkeys((*self.methods, *(row["method"] for row in rows)))
            text = note(rows, self.methods, self.repeats, self._shared_test(scheme))
            tables.append(Table.of_metrics(f"at test, {scheme_name(scheme)}", COLUMNS, rows, names, note=text))
        return tables

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        data, over = self.title.partition(":")[0], f"{self.repeats[1]}s"
        return [
            chart(
                "figure" if i == 0 else f"figure-{scheme}",
                f"{data}, {scheme_name(scheme)}",
                rows,
                self.methods,
                over,
                self._shared_test(scheme),
            )
            for i, ((scheme,), rows) in enumerate(grouped(summary, "scheme").items())
        ]

    def _shared_test(self, scheme: str) -> bool:
        """Whether all repeats are tested on the same examples; otherwise they are folds, each tested once."""
        return scheme in (*self.shared_test, MULTIBENCH)


@dataclass(frozen=True)
class AffectMOSI(Affect):
    """Is an utterance positive? CMU-MOSI."""

    name: ClassVar[str] = "affect-mosi"
    published: ClassVar[Mapping[str, tuple[float, float]]] = PAPER["mosi"]
    shared_test: ClassVar[tuple[str, ...]] = (OFFICIAL,)


@dataclass(frozen=True)
class AffectMUStARD(Affect):
    """Is a line of a TV show sarcastic? MUStARD."""

    name: ClassVar[str] = "affect-mustard"
    published: ClassVar[Mapping[str, tuple[float, float]]] = PAPER["mustard"]
    shared_test: ClassVar[tuple[str, ...]] = (INDEPENDENT,)

    scheme: tuple[str, ...] = (OFFICIAL, INDEPENDENT)

    def searched_at(self) -> dict[str, Any]:
        return super().searched_at() | ({"scheme": OTHER_SHOWS} if self.kind == "features" else {})


@dataclass(frozen=True)
class AffectURFunny(Affect):
    """Is the punchline of a talk funny? UR-FUNNY."""

    name: ClassVar[str] = "affect-ur-funny"
    published: ClassVar[Mapping[str, tuple[float, float]]] = PAPER["ur-funny"]
    quick: ClassVar[Mapping[str, Any]] = {k: v for k, v in Affect.quick.items() if k != "fold"}
