"""Selection of settings: every method has the same number of candidates, compared on validation data only.

A search writes ``settings.json`` to its folder, with the complete settings of each method: its entries can replace
those of the same methods in ``studies/*/settings.json``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from synib.data import Dataset
from synib.models import FusionModel
from synib.objective import Objective
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Table
from synib.training import Cell, Learner
from synib.training.cells import Examining

SHOWN = 5  # candidates of each method in the tables


@dataclass(frozen=True)
class Search(Experiment):
    """Choose settings on validation data: the same number of candidates for every method, without test data."""

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "Search: which settings to use"
    factors: ClassVar[tuple[str, ...]] = ("candidate",)
    headline: ClassVar[str] = "validation_accuracy"
    curves: ClassVar[bool] = False

    seeds: int = 10
    of: str = option("parity", "The experiment whose settings to choose.")

    def __post_init__(self) -> None:
        """All methods for which the experiment has candidates, unless some are named."""
        candidates = self.experiment.candidates()
        if not candidates:
            searched = [name for name, kind in _others().items() if kind().candidates()]
            raise ValueError(f"{self.of} has no candidates to search; choose from {', '.join(searched)}.")
        for method in self.methods:
            if method not in candidates:
                names = ", ".join(candidates)
                raise ValueError(f"{self.of} has no candidates for {method!r}; it has candidates for {names}.")
        object.__setattr__(self, "methods", self.methods or tuple(candidates))
        super().__post_init__()

    @property
    def experiment(self) -> Experiment:
        """The experiment that is searched."""
        experiments = _others()
        if self.of not in experiments:
            raise ValueError(f"Unknown experiment {self.of!r}: choose from {', '.join(experiments)}.")
        return experiments[self.of]()

    @property
    def about(self) -> str:  # type: ignore[override]  # the searched experiment has the rule
        """A paragraph for the page."""
        rule = f"{self.experiment.preferred} (the first of them in case of a tie), and is listed first"
        return f"Every method has the same number of candidate settings. {rule}; test data are not used."

    def defaults(self) -> dict[str, dict[str, Any]]:
        """The settings shared by all candidates: those of the experiment, and those that it fixes for all methods."""
        settings, fixed = self.experiment.defaults(), self.experiment.fixed()
        return {method: settings[method] | fixed for method in self.experiment.candidates()}

    def points(self) -> list[dict[str, Any]]:
        return [{"candidate": describe(c)} for method in self.methods for c in self.experiment.candidates()[method]]

    def cells(self) -> list[Cell]:
        settings, candidates = self.settings(), self.experiment.candidates()
        return [
            Cell(self.name, method, {"candidate": describe(candidate)}, settings[method] | candidate, seed)
            for method in self.methods
            for candidate in candidates[method]
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        """The settings shared by all candidates of a method."""
        candidates = self.experiment.candidates()
        return {
            cell.method: {k: v for k, v in cell.settings.items() if k not in candidates[cell.method][0]}
            for cell in self.cells()
        }

    def data(self, cell: Cell) -> Dataset:
        data = self.experiment.data(replace(cell, factors=self.experiment.searched_at()))
        return replace(data, test=None)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return self.experiment.model(cell, data)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        return self.experiment.method(cell, data)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """The further metrics of the experiment, if it has any, without test data."""
        if not isinstance(self.experiment, Examining):
            return {}
        return self.experiment.examine(replace(cell, factors=self.experiment.searched_at()), learner, data)

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """The best candidates of each method; ``summary.csv`` has all of them."""
        judged = self.experiment.judged
        metric = next(iter(judged.values()))
        chosen = {method: describe(candidate) for method, candidate in self.choose(summary).items()}
        tables = []
        for method in self.methods:
            tried = [r for r in summary if r["method"] == method and r["metric"] == metric]
            best = sorted((r for r in tried if r["mean"] is not None), key=lambda r: -r["mean"])[:SHOWN]
            names = dict.fromkeys([chosen[method], *(r["candidate"] for r in best)])
            title = f"{method}: the best {len(names)} of {len(tried)} candidates"
            rows = [r for r in summary if r["method"] == method]
            tables.append(Table.of_metrics(title, judged, rows, names, by="candidate", of="candidate"))
        return tables

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        """The chosen candidates, and the complete settings, in the form of a study's ``settings.json``."""
        chosen, settings = self.choose(summary), self.experiment.defaults()
        return {"chosen": chosen, "settings": {self.of: {m: settings[m] | chosen[m] for m in self.methods}}}

    def choose(self, summary: Sequence[Row]) -> dict[str, dict[str, Any]]:
        """The candidate of each method that the experiment prefers; a candidate with failed models ranks last."""
        scores: dict[tuple[str, str], dict[str, float]] = {}
        complete: dict[str, int] = {}
        for row in summary:
            complete[row["metric"]] = max(row["n"], complete.get(row["metric"], 0))
        for row in summary:
            failed = row["mean"] is None or row["n"] < complete[row["metric"]]
            # Rounded: the last bits of a sum differ between machines and must not decide between equal candidates.
            score = float("-inf") if failed else round(row["mean"], 9)
            scores.setdefault((row["method"], row["candidate"]), {})[row["metric"]] = score
        experiment = self.experiment
        candidates = experiment.candidates()
        return {
            m: candidates[m][experiment.prefer([scores[m, describe(candidate)] for candidate in candidates[m]])]
            for m in self.methods
        }


def _others() -> dict[str, type[Experiment]]:
    """All experiments except the search itself."""
    from synib.studies import EXPERIMENTS

    return {name: kind for name, kind in EXPERIMENTS.items() if kind is not Search}


def describe(candidate: dict[str, Any]) -> str:
    """Settings as text, for the column of candidates."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in candidate.items()
    )
