"""Choosing settings: every method gets the same number of candidates, judged on validation accuracy alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from synib.data import Dataset
from synib.engines import Cell
from synib.experiments.base import OF_MODEL, Experiment, Row
from synib.experiments.charts import Figure, Table
from synib.models import FusionModel

SHOWN = 5


@dataclass(frozen=True)
class Search(Experiment):
    """Trains every candidate of every method of another experiment, and never looks at its test data.

    Args:
        of: Name of the experiment.
        seeds: How many seeds, counted from 0.
        methods: Which methods; all that the experiment has candidates for by default.
    """

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "Search: which settings to use"
    about: ClassVar[str] = (
        "Every method gets the same number of candidate settings. The one with the best mean validation accuracy is "
        "chosen, the first of them if several are equally good; test data is not looked at."
    )
    factors: ClassVar[tuple[str, ...]] = ("candidate",)
    headline: ClassVar[str] = "validation_accuracy"
    curves: ClassVar[bool] = False

    of: str = "parity"
    seeds: int = 10
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        if self.seeds < 1:
            raise ValueError(f"A search needs at least one seed; got {self.seeds}.")
        known = self.experiment.candidates()
        if not known:
            raise ValueError(f"{self.of} has no candidates to search.")
        for method in self.methods:
            if method not in known:
                raise ValueError(f"{self.of} has no candidates for {method!r}; it has some for {', '.join(known)}.")
        object.__setattr__(self, "methods", self.methods or tuple(known))

    @property
    def experiment(self) -> Experiment:
        """The experiment that is searched."""
        from synib.experiments import EXPERIMENTS

        if self.of not in EXPERIMENTS or self.of == self.name:
            raise ValueError(f"No experiment is called {self.of!r}; there are {', '.join(EXPERIMENTS)}.")
        return EXPERIMENTS[self.of]()

    @classmethod
    def defaults(cls) -> dict[str, dict[str, Any]]:
        return {}

    def cells(self) -> list[Cell]:
        experiment = self.experiment
        # Whatever the experiment fixes for all methods (its data, its network) holds here too.
        fixed = {k: v for k, v in experiment.cells()[0].settings.items() if k in ("data", *OF_MODEL)}
        return [
            Cell(
                self.name,
                method,
                {"candidate": describe(candidate)},
                {**experiment.defaults()[method], **fixed, **candidate},
                seed,
            )
            for method in self.methods
            for candidate in experiment.candidates()[method]
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        """What all candidates of a method share."""
        candidates = self.experiment.candidates()
        return {
            cell.method: {k: v for k, v in cell.settings.items() if k not in candidates[cell.method][0]}
            for cell in self.cells()
        }

    def data(self, cell: Cell) -> Dataset:
        made = self.experiment.data(replace(cell, factors=self.experiment.searched_at()))
        return replace(made, test=None)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return self.experiment.model(cell, data)

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """The best candidates of each method; ``summary.csv`` has all of them."""
        made = []
        for method in self.methods:
            mine = [r for r in summary if r["method"] == method and r["metric"] == self.headline]
            best = sorted(mine, key=lambda r: -r["mean"])[:SHOWN]
            title = f"{method}: the best {len(best)} of {len(mine)} candidates"
            made.append(Table(title, ["validation accuracy"], {r["candidate"]: [r] for r in best}, of="candidate"))
        return made

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return []

    def chosen(self, summary: Sequence[Row]) -> dict[str, dict[str, Any]]:
        """The best candidate of each method."""
        scores = {(r["method"], r["candidate"]): r["mean"] for r in summary if r["metric"] == self.headline}
        candidates = self.experiment.candidates()
        return {
            method: max(candidates[method], key=lambda candidate, m=method: scores[m, describe(candidate)])  # type: ignore[misc]
            for method in self.methods
        }


def describe(candidate: dict[str, Any]) -> str:
    """Settings in a few words, as a factor of the table."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in candidate.items()
    )
