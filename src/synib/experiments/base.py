"""What every experiment is: its cells, how to train one, and what to show of the results."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Self

from synib import methods
from synib.data import Dataset
from synib.engines import Cell
from synib.experiments.charts import Figure, Table
from synib.measure import statistics
from synib.models import FusionModel
from synib.objective import Bernoulli, Family, Objective

# What is the model's, the data's or the optimiser's among a cell's settings.
OF_MODEL = ("width", "dropout", "detach_heads")
NOT_THE_METHODS = ("lr", "weight_decay", "epochs", "batch_size", "data", *OF_MODEL)
NOT_A_METRIC = ("experiment", "method", "seed", "cell", "versions")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Experiment(ABC):
    """Base of all experiments. Fields of the subclass are its options: they are the run's config.

    Attributes:
        name: What the command calls it.
        title: What the page calls it.
        about: A paragraph for the page.
        factors: What varies besides method and seed.
        headline: The metric that tables show.
        curves: Whether accuracies are kept after every epoch.
        names: What the summary calls a metric, where it has a name of its own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    factors: ClassVar[tuple[str, ...]]
    family: ClassVar[Family] = Bernoulli()
    headline: ClassVar[str] = "test_accuracy"
    curves: ClassVar[bool] = True
    names: ClassVar[Mapping[str, str]] = {}

    @classmethod
    @abstractmethod
    def defaults(cls) -> dict[str, dict[str, Any]]:
        """How each method is trained, unless the run says otherwise."""

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """For each method the settings that a search tries, equally many for all; empty if there is no search."""
        return {}

    def searched_at(self) -> dict[str, Any]:
        """The factors at which a search compares candidates."""
        return {}

    def settings(self) -> dict[str, dict[str, Any]]:
        """How each method is trained in this run."""
        changes: Mapping[str, Mapping[str, Any]] = getattr(self, "overrides", {})
        for method in changes:
            if methods.check_method(method) not in self.defaults():
                raise ValueError(f"{self.name} has no settings for {method!r}; it has {', '.join(self.defaults())}.")
        return {method: {**given, **changes.get(method, {})} for method, given in self.defaults().items()}

    def described(self) -> dict[str, Mapping[str, Any]]:
        """What the page says about how models were trained: who → settings."""
        return {cell.method: cell.settings for cell in self.cells()}

    def check(self) -> None:
        """Build one model and method of each kind, so that a setting that cannot be is said before training starts."""
        for cell in {cell.program: cell for cell in self.cells()}.values():
            data = self.data(cell)
            self.method(cell, data)
            self.model(cell, data)

    @abstractmethod
    def cells(self) -> list[Cell]:
        """Every model to train."""

    @abstractmethod
    def data(self, cell: Cell) -> Dataset:
        """A cell's data."""

    @abstractmethod
    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        """A cell's model, freshly initialised."""

    @abstractmethod
    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        """The figures."""

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """The tables: by default the headline, with a column for each combination of factors."""
        rows = [row for row in summary if row["metric"] == self.headline]
        columns = list(dict.fromkeys(tuple(row[f] for f in self.factors) for row in rows))
        found = {(row["method"], tuple(row[f] for f in self.factors)): row for row in rows}
        methods = list(dict.fromkeys(row["method"] for row in rows))
        headings = [", ".join(_named(f, v) for f, v in zip(self.factors, c, strict=True)) for c in columns]
        title = self.headline.replace("_", " ")
        return [Table(title, headings, {m: [found.get((m, c)) for c in columns] for m in methods})]

    @property
    def caution(self) -> str:
        """A sentence on what makes this run smaller than the real one; empty if nothing does."""
        return ""

    def method(self, cell: Cell, data: Dataset) -> Objective:
        """A cell's method. What its settings say about the data (blocks, sources, widths) becomes numbers here."""
        settings = {k: v for k, v in cell.settings.items() if k not in NOT_THE_METHODS}
        if "blocks" in settings:
            chosen = settings.pop("blocks")
            settings["coordinates"] = {
                name: [i for block in chosen for i in blocks.get(block, ())] for name, blocks in data.blocks.items()
            }
        if "only_source" in settings:
            settings["only"] = data.train.groups[settings.pop("only_source")]
        if cell.method == "synib-amortized":
            settings["widths"] = data.widths
        return methods.build(cell.method, family=self.family, **settings)

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        """The paper's value, where it gives one."""
        return None

    def config(self) -> dict[str, Any]:
        """Everything needed to run it again."""
        return {"experiment": self.name, **asdict(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The experiment that :meth:`config` described."""
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items() if k != "experiment"}
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(
                f"{cls.name} has no option {unknown[0]!r}; it has {', '.join(f.name for f in fields(cls))}."
            )
        for f in fields(cls):
            if f.name in options and f.default is not MISSING and not _like(options[f.name], f.default):
                raise ValueError(f"{cls.name} takes {f.name} in the form {f.default!r}; got {options[f.name]!r}.")
        return cls(**options)

    def summary(self, results: Sequence[Row]) -> list[dict[str, Any]]:
        """Mean, standard error and n over seeds, for each method, factors and metric."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in results:
            groups.setdefault((row["method"], *(row[f] for f in self.factors)), []).append(row)
        table = []
        for (method, *values), rows in groups.items():
            factors = dict(zip(self.factors, values, strict=True))
            for metric in [m for m in rows[0] if m not in NOT_A_METRIC and m not in self.factors]:
                numbers = [row[metric] for row in rows if row[metric] is not None]
                table.append(
                    {
                        "experiment": self.name,
                        "method": method,
                        **factors,
                        "metric": self.names.get(metric, metric),
                        **statistics(numbers),
                        "paper": self.paper(method, factors, self.names.get(metric, metric)),
                    }
                )
        return table


def _named(factor: str, value: Any) -> str:
    return f"{factor} = {value:g}" if isinstance(value, float) else f"{factor} = {value}"


def _like(value: Any, default: Any) -> bool:
    """Whether a value that came from a file is of the kind of an option's default."""
    if isinstance(default, tuple):
        return isinstance(value, tuple) and all(_like(v, default[0]) for v in value if default)
    kinds = (int, float) if isinstance(default, float) else (type(default),)
    return type(value) in kinds
