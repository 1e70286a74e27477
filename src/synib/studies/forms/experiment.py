"""Forms of SynIB (fills, draws, spaces, masks, references, schedules) compared on development data, without test data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch

from synib.checks import shown
from synib.data import Dataset, Split
from synib.measure import auc, calibration, correct, f1_by_class, temperature
from synib.methods.hooks import FitsAtEnd
from synib.models import FusionModel
from synib.objective import Batch, Objective
from synib.studies.base import Experiment, Row, grid, option
from synib.studies.charts import Bars, Figure, Table
from synib.studies.forms.catalogue import Form, Task, forms, tasks
from synib.studies.search import describe
from synib.tokens import take
from synib.training import Cell, Learner

WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0)
METRICS = {
    "total": "total",
    "synergy": "synergy",
    "ECE": "ece",
    "ECE, recalibrated": "ece_calibrated",
}


@dataclass(frozen=True)
class Forms(Experiment):
    """Which fill, how many draws, which space, mask and schedule: forms of SynIB on development data of three tasks."""

    name: ClassVar[str] = "forms"
    title: ClassVar[str] = (
        "Forms of SynIB: which fill, how many draws, which mask, and how to keep unimodal information"
    )
    about: ClassVar[str] = (
        "Every form of SynIB, vanilla fusion and the confidence penalty had equally many candidate "
        "settings on each task. Test data are not used: candidates are chosen on the validation data of "
        "the first half of the seeds, and the results are measured on those of the other half (digits: "
        "other speakers; irony: the same actors, with other ironic clips; PID-XOR: other data). "
        "Everything fitted after training (the experts' weights, the temperature of the recalibrated ECE) "
        "is fitted on one half of the validation examples and measured on the other."
    )
    factors: ClassVar[tuple[str, ...]] = ("task", "form", "candidate")
    headline: ClassVar[str] = "synergy"
    curves: ClassVar[bool] = False
    chooses_on_half: ClassVar[bool] = True
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "task": ("pid-xor",), "form": ("vanilla", "shuffled", "16 draws")}

    seeds: int = 6
    methods: tuple[str, ...] = ()
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    task: tuple[str, ...] = option(("digits", "irony", "pid-xor"), "Only this task; may be repeated.")
    form: tuple[str, ...] = option(("all",), "Only this form; may be repeated.")

    def __post_init__(self) -> None:
        if not (self.task and self.form):
            raise ValueError("task and form must each have at least one value; got none.")
        known = self._tasks
        if unknown := [name for name in self.task if name not in known]:
            raise ValueError(f"task must be one of {', '.join(known)}; got {shown(unknown[0])}.")
        names = dict.fromkeys(name for task in self.task for name in self._all(task))
        if unknown := [name for name in self.form if name not in names and self.form != ("all",)]:
            raise ValueError(f"form must be one of {', '.join(names)}; got {shown(unknown[0])}.")
        used = dict.fromkeys(form.method for task in self.task for form in self._forms(task).values())
        object.__setattr__(self, "methods", self.methods or tuple(used))
        super().__post_init__()
        if self.chooses_on_half and self.seeds < 2:
            raise ValueError(
                "Forms are chosen on one half of the seeds and measured on the other, so seeds must be at least "
                f"2; got {self.seeds}."
            )

    @property
    def repeats(self) -> tuple[int, str]:
        """The repeats that are reported: the seeds that were not used to choose settings."""
        return self.seeds - self.seeds // 2, "seed"

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return tasks(self.root)

    def _all(self, task: str) -> dict[str, Form]:
        return forms(self._tasks[task], self._common(task)["batch_size"])

    def _forms(self, task: str) -> dict[str, Form]:
        every = self._all(task)
        return every if self.form == ("all",) else {name: every[name] for name in self.form if name in every}

    def _common(self, task: str) -> dict[str, Any]:
        experiment = self._tasks[task].experiment
        return {**experiment.defaults()["vanilla"], "weight_decay": 1e-4, **experiment.fixed(), "data": {"task": task}}

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Empty: settings belong to a form, not to its method."""
        return {form.method: {} for task in self.task for form in self._all(task).values()}

    def points(self) -> list[dict[str, Any]]:
        return [cell.factors for cell in self.cells() if cell.seed == 0]  # type: ignore[misc]

    def _candidates(self, task: Task, form: Form) -> list[dict[str, Any]]:
        """The same number for every form."""
        if form.method == "vanilla":
            low, high = task.rates
            return grid(
                dropout=task.dropouts, lr=(low / 3, low, (low * high) ** 0.5, high, 3 * high), weight_decay=(1e-5, 1e-3)
            )
        return grid(dropout=task.dropouts, lr=task.rates, weight=WEIGHTS)

    def cells(self) -> list[Cell]:
        overrides = self.settings()
        return [
            Cell(
                self.name,
                form.method,
                {"task": task, "form": name, "candidate": describe(candidate)},
                {**self._common(task), **candidate, **form.settings, **overrides[form.method]},
                seed,
            )
            for task in self.task
            for name, form in self._forms(task).items()
            if form.method in self.methods
            for candidate in self._candidates(self._tasks[task], form)
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {f"{task}: {name}": form.settings for task in self.task for name, form in self._forms(task).items()}

    def _of_task(self, cell: Cell) -> tuple[Task, Cell]:
        """The task of a cell, and the cell of the task's experiment."""
        task = self._tasks[str(cell.factors["task"])]
        fixed = task.experiment.fixed().get("data")
        settings = {k: v for k, v in cell.settings.items() if k != "data"} | ({"data": fixed} if fixed else {})
        return task, replace(cell, factors=task.experiment.searched_at(), settings=settings)

    def data(self, cell: Cell) -> Dataset:
        task, inner = self._of_task(cell)
        return replace(task.experiment.data(inner), test=None)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        task, inner = self._of_task(cell)
        return task.experiment.model(inner, data)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        task, inner = self._of_task(cell)
        shares = inner.settings.get("shares")
        if shares is None:
            return task.experiment.method(inner, data)
        # A form that penalises some modalities only gives the others a share of 0.
        corrupt = [name for name in data.train.modalities if shares.get(name, 1.0)]
        settings = {name: value for name, value in inner.settings.items() if name != "shares"}
        return task.experiment.method(replace(inner, settings=settings | {"corrupt": corrupt}), data)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Scores on validation examples; what is fitted after training is fitted on the other half of them."""
        task, _ = self._of_task(cell)
        family, split = task.experiment.family, data.validation
        even = torch.arange(len(split)) % 2 == 0
        raw, scaled = torch.zeros(0), torch.zeros(0)
        for fitted in (even, ~even):
            fit, test = ({n: take(x, rows) for n, x in split.modalities.items()} for rows in (fitted, ~fitted))
            with torch.no_grad():
                if isinstance(learner.method, FitsAtEnd):
                    learner.method.settle(learner.model, Batch(fit, split.target[fitted]))
                fit_logits, logits = (learner.method.predict(learner.model, m) for m in (fit, test))
            if not len(raw):
                raw, scaled = (logits.new_zeros((len(split), *logits.shape[1:])) for _ in range(2))
            raw[~fitted] = logits
            scaled[~fitted] = logits / temperature(fit_logits, split.target[fitted], family)
        scores = self._scores(task, raw, split)
        for name, logits in (("ece", raw), ("ece_calibrated", scaled)):
            scores[name] = calibration(logits, split.target, family=family).error
        return scores | self._of_calibrated(task, scaled, split)

    def _of_calibrated(self, task: Task, logits: torch.Tensor, split: Split) -> dict[str, float]:
        """Further scores of calibrated validation predictions; none here."""
        return {}

    @staticmethod
    def _scores(task: Task, logits: torch.Tensor, split: Split) -> dict[str, float]:
        hits = correct(task.experiment.family, logits, split.target)
        if not task.last:
            members = split.groups["S"].bool()
            return {"total": hits.mean().item(), "synergy": hits[members].mean().item()}
        last = logits.shape[1] - 1
        f1 = f1_by_class(logits.argmax(1), split.target, last + 1)
        return {
            "total": float(f1[f1 == f1].mean()),  # a class that does not occur has none
            "synergy": auc(logits.log_softmax(1)[:, last], split.target == last),
        }

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """For each task and form, the candidate chosen on one half of the seeds, and its means over the other half."""
        half = self.seeds // 2
        groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
        for row in results:
            groups.setdefault((row["task"], row["form"]), {}).setdefault(row["candidate"], []).append(row)
        table = []
        for (task, form), candidates in groups.items():
            scores = []
            for rows in candidates.values():
                first = [row for row in rows if row["seed"] < half]
                means = {m: sum(row[m] for row in first) / len(first) for m in ("total", "synergy")}
                names = {
                    "validation_accuracy": "total",
                    "validation_macro_f1": "total",
                    "validation_irony_auc": "synergy",
                }
                scores.append({metric: means[name] for metric, name in names.items()})
            chosen = list(candidates)[self._tasks[task].experiment.prefer(scores)]
            rows = [row for row in candidates[chosen] if row["seed"] >= half]
            factors = {"task": task, "form": form, "candidate": chosen}
            for metric in METRICS.values():
                numbers = [row[metric] for row in rows if row[metric] is not None]
                if numbers:
                    table.append(self.row(rows[0]["method"], factors, metric, numbers))
        return table

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        note = f"n counts seeds: those after the first {self.seeds // 2}, on which settings were chosen."
        tables = []
        for task in self.task:
            rows_of_task = [row for row in summary if row["task"] == task]
            names = dict.fromkeys(row["form"] for row in rows_of_task)
            text = f"Total and synergy: {self._tasks[task].scores}. {note}"
            tables.append(Table.of_metrics(task, METRICS, rows_of_task, names, by="form", of="form", note=text))
        return tables

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        figures: list[Figure] = []
        for task in self.task:
            rows_of_task = [{**row, "method": row["form"]} for row in summary if row["task"] == task]
            names = dict.fromkeys(row["method"] for row in rows_of_task)
            figures.append(
                Bars.of(
                    f"figure-{task}",
                    f"Forms of SynIB on {task}",
                    {"synergy": "synergy", "total": "total"},
                    rows_of_task,
                    names,
                    reading=(
                        f"Validation data; total and synergy are {self._tasks[task].scores}. Bars are ± one standard error "
                        f"over {(n := self.seeds - self.seeds // 2)} seed{'s' * (n != 1)} that were not used to choose "
                        "settings."
                    ),
                    spread="error",
                    kinds={row["form"]: row["method"] for row in summary if row["task"] == task},
                )
            )
        return figures
