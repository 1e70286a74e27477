"""One recipe for all tasks: candidates compared on development data, and the rule that chooses among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from synib.data import Dataset
from synib.studies.attention.tasks import as_tokens, attention_tasks
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Table
from synib.studies.digits.data import DIGITS, RuleName
from synib.studies.digits.experiment import digits_data
from synib.studies.fair.candidates import cost_of, recipes
from synib.studies.fair.catalogue import LADDERS, START, Axes
from synib.studies.fair.search import FairSearch
from synib.studies.forms.catalogue import Form, Task
from synib.studies.irony.matched import STEPS, MatchedIrony
from synib.studies.irony.matched_search import SEARCHED_AT
from synib.studies.pid_xor.data import pid_xor
from synib.studies.search import describe
from synib.training import Cell

MIXTURE = (0.45, 0.0, 0.45, 0.10)
ROWS = 3000  # of validation, for digits
PID_ROWS = 1500
FRESH = 100  # added to the seed of PID-XOR: other data than those of the comparison
TOKENS, IRONY = "digits-tokens", "irony-matched"  # attention fusion of tokens; irony on actors that search validates on
LABELS: dict[str, RuleName] = {"digits": "parity", "digits-modulo-3": "modulo-3", TOKENS: "parity"}
# digits-halves and digits-pairs take no part, so that they can test what was developed on the others.
DEVELOPMENT = ("digits", "digits-modulo-3", "pid-xor", IRONY, TOKENS)
CLOSE = 0.005  # of two candidates whose largest shortfalls differ by less, the cheaper one is chosen


@dataclass(frozen=True)
class FairRecipes(FairSearch):
    """Which fixed recipe of SynIB loses least on the task where it does worst? On development data of five tasks."""

    name: ClassVar[str] = "fair-recipes"
    title: ClassVar[str] = "Fair comparison: candidates for one recipe"
    about: ClassVar[str] = (
        "Every recipe fixes masks, draws, weight and schedule on all tasks; learning rate and dropout are chosen for each "
        "task by its own rule (accuracy; for irony AUC), among the same candidates. All numbers are of development data: 3,000 "
        "validation examples of each seed's validation speaker, also as tokens for attention fusion; draws of PID-XOR that no "
        "other run has; and the validation actors of matched irony's search. A recipe's shortfall is how far its synergy "
        "accuracy (AUC of irony) is behind the best recipe of that task. The rule, written down before the run: find the "
        "smallest of the largest shortfalls over the tasks, and among recipes within 0.005 of it choose the one with the "
        "cheapest step. Test data are not read."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("pid-xor",), "form": ("learned, 1 draw, 10 to 0",)}

    seeds: int = 6
    task: tuple[str, ...] = option(DEVELOPMENT, "Only this task; may be repeated.", among=DEVELOPMENT)

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        tokens = attention_tasks(self.root)["digits"]
        irony = Task(
            MatchedIrony(root=self.root),
            "macro F1, and AUC of irony",
            ("audio", "video"),
            STEPS,
            (3e-4, 3e-3),
            last=True,
        )
        return {**super()._tasks, TOKENS: tokens, IRONY: irony}

    def _all(self, task: str) -> dict[str, Form]:
        return recipes(self._tasks[task].steps)

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, two dropouts; no dropout for tokens, as in their comparison."""
        low, high = self._tasks[task].rates
        dropouts = (0.0,) if task == TOKENS else START["dropout"]
        return {"lr": tuple(rate for rate in LADDERS["lr"] if low <= rate <= high), "dropout": dropouts}

    def widened(self, results: Sequence[Row]) -> None:
        """Grids are not extended."""

    def data(self, cell: Cell) -> Dataset:
        """Training and development data of a cell; there are no test data."""
        task = str(cell.factors["task"])
        if task == IRONY:
            experiment, inner = self._of_task(cell)
            split = replace(inner, seed=SEARCHED_AT[cell.seed % len(SEARCHED_AT)])
            return replace(experiment.experiment.data(split), test=None)
        if task in LABELS:
            root = str(DIGITS.find(self.root or None))
            made = digits_data(root, MIXTURE, cell.seed, LABELS[task], validation=ROWS, test=2)
            return replace(as_tokens(made) if task == TOKENS else made, test=None)
        seed = cell.seed + FRESH
        return replace(pid_xor(*MIXTURE, seed=seed, projection_seed=seed, validation=PID_ROWS, test=2), test=None)

    def scores(self, summary: Sequence[Row]) -> dict[str, dict[str, Row]]:
        """Task → recipe → the row of synergy accuracy, with the learning rate and dropout chosen by the task's rule."""
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
        """The cheapest of the recipes whose largest shortfall is close to the smallest, and all shortfalls."""
        behind = self.shortfalls(summary)
        largest = {form: max(of.values()) for form, of in behind.items()}
        close = [form for form in largest if largest[form] < min(largest.values()) + CLOSE]
        every = recipes(1)
        chosen = min(close, key=lambda form: (cost_of(every[form]), round(largest[form], 9)))
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
        alone = "" if set(DEVELOPMENT) <= {*tasks} else " on these data alone"
        note = f"Largest shortfall of each recipe. {worst}. Chosen{alone}: {chosen}."
        return [
            Table("Synergy accuracy on development data", tasks, synergy, of="recipe", note=note),
            Table("Total accuracy on development data", tasks, total, of="recipe"),
        ]

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Means over seeds of every candidate."""
        return Experiment.summary(self, results)
