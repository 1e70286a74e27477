"""The base class of experiments: their cells, how to train one, and what to show of the results."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, ClassVar, Self, cast

from synib.data import Dataset
from synib.measure import statistics
from synib.methods import build
from synib.models import FusionModel
from synib.objective import Bernoulli, Family, Objective
from synib.studies.aggregate import grouped, leads, means
from synib.studies.charts import Figure, Table
from synib.studies.options import OF_TRAINING, check_methods, check_overrides, checked_options
from synib.training import Cell

Row = Mapping[str, Any]

NOT_A_METRIC = ("experiment", "method", "seed", "cell", "versions", "error")
SHARED = "every method"  # in settings.json: the settings that all methods have, unless their own entries say otherwise


def option(default: Any, help: str, flag: str = "", among: Iterable[Any] = ()) -> Any:
    """An option of an experiment: a dataclass field with its help text and the allowed values.

    Args:
        default: Its default.
        help: The help text of the command.
        flag: Its flag, if it differs from the name.
        among: The allowed values, if restricted; for a repeatable option, of each value.
    """
    return field(default=default, metadata={"help": help, "flag": flag, "among": tuple(among)})


@dataclass(frozen=True)
class Experiment(ABC):
    """Base class of all experiments. Its fields are its options: of the class, of the command, and in the run's config.

    Attributes:
        name: Its name on the command line.
        title: Its title on the page.
        about: A paragraph for the page.
        factors: What varies besides method and seed.
        averaged: The factors over which the summary averages.
        family: The predictive distribution of its models.
        headline: The metric shown in tables.
        curves: Whether to record accuracies after every epoch.
        names: Metric → its name in the summary, if different.
        rivals: Metric → the methods with which the summary compares all others, in pairs.
        quick: Options of a smaller version, if there is one.
        of_model: The settings of a cell that belong to the model.
        group: The command shared by several experiments of one kind.
        chosen: The settings of each method, unless changed by an option.
        tried: Settings whose values a search tries for every method.
        own: Method → its own setting → the values of it that a search tries.
        judged: What a search shows of candidates: heading → metric, the first to sort them by.
        preferred: Which of them :meth:`prefer` chooses, in words.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    factors: ClassVar[tuple[str, ...]]
    averaged: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[Family] = Bernoulli()
    headline: ClassVar[str] = "test_accuracy"
    curves: ClassVar[bool] = True
    names: ClassVar[Mapping[str, str]] = {}
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {}
    quick: ClassVar[Mapping[str, Any]] = {}
    of_model: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[str] = ""
    chosen: ClassVar[Mapping[str, dict[str, Any]]]
    tried: ClassVar[Mapping[str, Sequence[Any]]] = {}
    own: ClassVar[Mapping[str, Mapping[str, Sequence[Any]]]] = {}
    judged: ClassVar[Mapping[str, str]] = {"validation accuracy": "validation_accuracy"}
    preferred: ClassVar[str] = "The one with the best mean validation accuracy is chosen"

    seeds: int = option(3, "How many seeds, counted from 0.")
    methods: tuple[str, ...] = option((), "Only this method; may be repeated.")
    overrides: dict[str, dict[str, Any]] = field(
        default_factory=dict,
        metadata={"help": "Change a method's setting, as in synib-random.p=1; may be repeated."},
    )

    def __post_init__(self) -> None:
        """Refuse options that are impossible."""
        for name, value in checked_options(self).items():
            object.__setattr__(self, name, value)
        defaults = self.defaults()
        check_methods(self.name, (*self.overrides, *self.methods), defaults)
        for method, changes in self.overrides.items():
            check_overrides(self, method, changes, defaults[method])

    def defaults(self) -> dict[str, dict[str, Any]]:
        """How each method is trained, without the run's overrides."""
        return dict(self.chosen)

    @classmethod
    def quickly(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the smaller version; ``options`` take precedence."""
        return {**cls.quick, **options}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """For each method the settings that a search tries, equally many for all; empty if there is no search."""
        return {method: grid(**self.tried, **own) for method, own in self.own.items()}

    def searched_at(self) -> dict[str, Any]:
        """The factors at which a search compares candidates: by default the first point."""
        return self.points()[0]

    def prefer(self, scores: Sequence[Mapping[str, float]]) -> int:
        """Which of a method's candidates a search chooses, by their mean metrics: its place, the first of equals."""
        return max(range(len(scores)), key=lambda i: scores[i]["validation_accuracy"])

    def settings(self) -> dict[str, dict[str, Any]]:
        """How each method is trained in this run."""
        return {method: {**settings, **self.overrides.get(method, {})} for method, settings in self.defaults().items()}

    def described(self) -> dict[str, Mapping[str, Any]]:
        """The settings that the page shows: method → settings."""
        settings, fixed = self.settings(), self.fixed()
        return {method: settings[method] | fixed for method in self.methods}

    def check(self) -> None:
        """Build one model and method of each program, so that an impossible setting is refused before training starts."""
        for cell in {cell.program: cell for cell in self.cells()}.values():
            data = self.data(cell)
            self.method(cell, data)
            self.model(cell, data)

    @abstractmethod
    def points(self) -> list[dict[str, Any]]:
        """The values of the factors to train at."""

    def points_of(self, method: str) -> list[dict[str, Any]]:
        """The values of the factors at which to train a method: by default those of all methods."""
        return self.points()

    def fixed(self) -> dict[str, Any]:
        """Settings shared by all methods."""
        return {}

    def fixed_at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Settings shared by all methods at a point."""
        return {}

    def cells(self) -> list[Cell]:
        """All models to train: every method at every point with every seed."""
        settings, fixed = self.settings(), self.fixed()
        return [
            Cell(self.name, method, point, settings[method] | fixed | self.fixed_at(point), seed)
            for method in self.methods
            for point in self.points_of(method)
            for seed in range(self.seeds)
        ]

    @abstractmethod
    def data(self, cell: Cell) -> Dataset:
        """The data of a cell."""

    @abstractmethod
    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        """The newly initialised model of a cell."""

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        """The figures; none by default."""
        return []

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """The tables; by default the headline, with a column for each combination of factors."""
        rows = [row for row in summary if row["metric"] == self.headline]
        columns = list(dict.fromkeys(tuple(row[f] for f in self.factors) for row in rows))
        cells = {(row["method"], tuple(row[f] for f in self.factors)): row for row in rows}
        methods = list(dict.fromkeys(row["method"] for row in rows))
        headings = [", ".join(_named(f, v) for f, v in zip(self.factors, c, strict=True)) for c in columns]
        title = self.headline.replace("_", " ")
        return [Table(title, headings, {m: [cells.get((m, c)) for c in columns] for m in methods})]

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        """Plain values derived from the summary, each written as a JSON file of its name."""
        return {}

    @property
    def command(self) -> str:
        """Its part of the command line."""
        return f"{self.group} --on {self.name.removeprefix(f'{self.group}-')}" if self.group else self.name

    @property
    def repeats(self) -> tuple[int, str]:
        """The repeats behind means and standard errors: their number, and the name of one."""
        return self.seeds, "seed"

    @property
    def caution(self) -> str:
        """A sentence on what makes this run smaller than the full one; empty if nothing does."""
        count, name = self.repeats
        return f"One {name} only, so differences between methods have no standard error." if count == 1 else ""

    def method(self, cell: Cell, data: Dataset) -> Objective:
        """The method of a cell. Settings that name blocks or sources of the data become coordinates and rows here."""
        settings = {k: v for k, v in cell.settings.items() if k not in (*OF_TRAINING, *self.of_model)}
        if "blocks" in settings:
            chosen, known = settings.pop("blocks"), {block for blocks in data.blocks.values() for block in blocks}
            unknown = [block for block in chosen if block not in known] if isinstance(chosen, list) else [chosen]
            if unknown:
                raise ValueError(f"blocks must be a list of some of {', '.join(sorted(known))}; got {chosen!r}.")
            settings["coordinates"] = {
                name: [i for block in chosen for i in blocks.get(block, ())] for name, blocks in data.blocks.items()
            }
        if "only_source" in settings:
            settings["only"] = data.train.groups[settings.pop("only_source")]
        if cell.method == "synib-amortized":
            settings["widths"] = data.widths
        return build(cell.method, family=self.family, **settings)

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        """The paper's value, if there is one."""
        return None

    def config(self) -> dict[str, Any]:
        """All options needed to repeat the run."""
        return {"experiment": self.name, **asdict(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The experiment described by :meth:`config`."""
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items() if k != "experiment"}
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(
                f"{cls.name} has no option {unknown[0]!r}; its options are {', '.join(f.name for f in fields(cls))}."
            )
        return cast(Any, cls)(**options)

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Mean, standard error and n over seeds (or over :attr:`repeats`) for each method, factors and metric.

        Then the rules without a model, the leads over ``rivals``, and the rows of :meth:`beyond`.
        """
        results = [{self.names.get(name, name): value for name, value in row.items()} for row in results]
        kept = [factor for factor in self.factors if factor not in self.averaged]
        metrics, unit = self.metrics(results), self.repeats[1]
        rules = {metric: rule for metric in metrics if (rule := self.rule(metric))}
        averages = means(results, metrics, unit, *kept)
        table = []
        for (method, *values), rows in grouped(averages, "method", *kept).items():
            factors = dict(zip(kept, values, strict=True))
            table += [self.row(method, factors, m, [row[m] for row in rows]) for m in metrics if m not in rules]
        for point, rows in grouped(averages, *kept).items():
            factors = dict(zip(kept, point, strict=True))
            for metric, (name, what) in rules.items():  # the same for all methods, and for all seeds
                numbers = [row[metric] for row in rows if row["method"] == rows[0]["method"]]
                table.append(self.row(name, factors, what, numbers[:1] if unit == "seed" else numbers))
            for metric, rivals in self.rivals.items():
                for rival in rivals:
                    table += self.lead(rows, factors, metric, rival)
        return [*table, *self.beyond(results)]

    def rule(self, metric: str) -> tuple[str, str] | None:
        """The name and the metric of a rule without a model, if a column of the results belongs to one."""
        return None

    def lead(
        self, rows: Sequence[Row], factors: Mapping[str, Any], metric: str, rival: str, name: str = ""
    ) -> list[Row]:
        """Rows of the summary: the difference of each method from a rival, paired by seed."""
        above = leads(rows, metric, rival)
        return [self.row(m, factors, name or f"{metric}_over_{rival}", gains) for m, gains in above.items() if gains]

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """Rows of the summary that are not the mean of a metric over seeds."""
        return []

    def metrics(self, results: Sequence[Row]) -> list[str]:
        """The metrics of a table of results."""
        return [name for name in results[0] if name not in NOT_A_METRIC and name not in self.factors]

    def row(self, method: str, factors: Mapping[str, Any], metric: str, numbers: Sequence[float | None]) -> Row:
        """A row of the summary; missing numbers are left out."""
        return {
            "experiment": self.name,
            "method": method,
            **factors,
            "metric": metric,
            **statistics([number for number in numbers if number is not None]),
            "paper": self.paper(method, factors, metric),
        }


@cache
def settings_of(package: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The training settings of a study: experiment → method → settings, from ``settings.json`` in the study's folder.

    There, the entry ``"every method"`` of an experiment contains the settings shared by its methods. A search writes
    complete settings of each method, which can replace the entries of the same methods.

    Args:
        package: The study's package: ``settings_of(__package__)``.
    """
    entries = json.loads(resources.files(package).joinpath("settings.json").read_text("utf-8"))
    return {
        name: {method: methods[SHARED] | own for method, own in methods.items() if method != SHARED}
        for name, methods in entries.items()
    }


def grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """All combinations of the given values of several settings."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def _named(factor: str, value: Any) -> str:
    return f"{factor} = {value:g}" if isinstance(value, float) else f"{factor} = {value}"
