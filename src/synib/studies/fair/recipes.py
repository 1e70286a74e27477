"""One recipe for all tasks: candidates compared on development data, and the rule that chooses among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from synib.data import Dataset
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Table
from synib.studies.digits.data import DIGITS, RuleName
from synib.studies.digits.experiment import digits_data
from synib.studies.fair.catalogue import LADDERS, START, Axes, recipes
from synib.studies.fair.search import FairSearch
from synib.studies.forms.catalogue import Form
from synib.studies.pid_xor.data import pid_xor
from synib.studies.search import describe
from synib.training import Cell

MIXTURE = (0.45, 0.0, 0.45, 0.10)
ROWS = {"digits": 3000, "digits-modulo-3": 3000, "pid-xor": 1500}  # of validation
FRESH = 100  # added to the seed of PID-XOR: other data than those of the comparison
LABELS: dict[str, RuleName] = {"digits": "parity", "digits-modulo-3": "modulo-3"}
DEVELOPMENT = (*LABELS, "pid-xor")  # digits-halves takes no part, so that it can test what was developed on the others


@dataclass(frozen=True)
class FairRecipes(FairSearch):
    """Which fixed recipe of SynIB loses least on the task where it does worst? On development data of three tasks."""

    name: ClassVar[str] = "fair-recipes"
    title: ClassVar[str] = "Fair comparison: candidates for one recipe"
    about: ClassVar[str] = (
        "Every recipe fixes masks, draws, weight and schedule on all tasks; learning rate and dropout are chosen for each "
        "task by accuracy, among the same six candidates. All numbers are of development data: 3,000 validation examples "
        "of each seed's validation speaker, and 1,500 of draws of PID-XOR that no other run has. A recipe's shortfall is "
        "how far its synergy accuracy is behind the best recipe of that task. The rule, written down before the run: choose "
        "the recipe whose largest shortfall over the tasks is smallest. Test data are not read."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("pid-xor",), "form": ("learned, 1 draw, 10 to 0",)}

    seeds: int = 6
    task: tuple[str, ...] = option(DEVELOPMENT, "Only this task; may be repeated.", among=DEVELOPMENT)

    def _all(self, task: str) -> dict[str, Form]:
        return recipes(self._tasks[task].steps)

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, two dropouts."""
        low, high = self._tasks[task].rates
        return {"lr": tuple(rate for rate in LADDERS["lr"] if low <= rate <= high), "dropout": START["dropout"]}

    def widened(self, results: Sequence[Row]) -> None:
        """Grids are not extended."""

    def data(self, cell: Cell) -> Dataset:
        """Training and development data of a cell; there are no test data."""
        task = str(cell.factors["task"])
        sizes = {"validation": ROWS[task], "test": 2}
        if task in LABELS:
            made = digits_data(str(DIGITS.find(self.root or None)), MIXTURE, cell.seed, LABELS[task], **sizes)
        else:
            seed = cell.seed + FRESH
            made = pid_xor(*MIXTURE, seed=seed, projection_seed=seed, **sizes)
        return replace(made, test=None)

    def scores(self, summary: Sequence[Row]) -> dict[str, dict[str, Row]]:
        """Task → recipe → the row of synergy accuracy, with the learning rate and dropout chosen by accuracy."""
        rows = {(r["task"], r["form"], r["candidate"]): r for r in summary if r["metric"] == "synergy"}
        found: dict[str, dict[str, Row]] = {}
        for (task, form), rules in self.choose(summary).items():
            found.setdefault(task, {})[form] = rows[task, form, describe(rules["accuracy"])]
        return found

    def shortfalls(self, summary: Sequence[Row]) -> dict[str, dict[str, float]]:
        """Recipe → task → how far its synergy accuracy is behind the best recipe of the task."""
        found: dict[str, dict[str, float]] = {}
        for task, rows in self.scores(summary).items():
            best = max(row["mean"] for row in rows.values())
            for form, row in rows.items():
                found.setdefault(form, {})[task] = best - row["mean"]
        return found

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        """The recipe whose largest shortfall is smallest, and all shortfalls."""
        behind = self.shortfalls(summary)
        chosen = min(behind, key=lambda form: round(max(behind[form].values()), 9))
        return {"recipe": {"chosen": chosen, "shortfalls": behind}}

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """Synergy of each recipe on each task, and its shortfalls."""
        scores, behind = self.scores(summary), self.shortfalls(summary)
        tasks = list(scores)
        totals = {(r["task"], r["form"], r["candidate"]): r for r in summary if r["metric"] == "total"}
        total = {form: [totals.get((task, form, scores[task][form]["candidate"])) for task in tasks] for form in behind}
        synergy = {form: [scores[task].get(form) for task in tasks] for form in behind}
        worst = ", ".join(f"{form}: {max(of.values()):.3f}" for form, of in behind.items())
        chosen = self.conclusions(summary)["recipe"]["chosen"]
        note = f"Largest shortfall of each recipe. {worst}. Chosen: {chosen}."
        return [
            Table("Synergy accuracy on development data", tasks, synergy, of="recipe", note=note),
            Table("Total accuracy on development data", tasks, total, of="recipe"),
        ]

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Means over seeds of every candidate."""
        return Experiment.summary(self, results)
