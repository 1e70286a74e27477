"""Shared by the search and the comparison: the tasks, the forms, the initial grid of a form, and the data."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from synib.data import Dataset
from synib.studies.base import grid, option
from synib.studies.fair.catalogue import LADDERS, Axes, core, fair_forms, start
from synib.studies.fair.tasks import FAIRNESS, ceiling_data, fair_tasks
from synib.studies.forms.catalogue import Form, Task
from synib.studies.forms.experiment import Forms
from synib.training import Cell

SELECTIONS = {"accuracy": "the task's own rule, on validation data", "gain": "validation interaction gain"}
WHOLE = ("ahead", "every")  # settings that are whole numbers


@dataclass(frozen=True)
class FairForms(Forms):
    """Every form (method, schedule, fill) on every task of the fair comparison."""

    chooses_on_half: ClassVar[bool] = False
    ladders: ClassVar[Axes] = LADDERS  # what a search may try

    task: tuple[str, ...] = option(tuple(FAIRNESS), "Only this task; may be repeated.", among=FAIRNESS)
    form: tuple[str, ...] = option(("all",), "Only this form, or core for a smaller set; may be repeated.")
    first: int = option(0, "The first seed.")

    def __post_init__(self) -> None:
        if "core" in self.form:
            known = [task for task in self.task if task in self._tasks]
            names = dict.fromkeys(name for task in known for name in core(self._all(task)))
            object.__setattr__(self, "form", tuple(names))
        super().__post_init__()

    @property
    def repeats(self) -> tuple[int, str]:
        return self.seeds, "seed"

    def points(self) -> list[dict[str, Any]]:
        return [dict(cell.factors) for cell in self.cells() if cell.seed == self.first]

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return fair_tasks(self.root)

    def _all(self, task: str) -> dict[str, Form]:
        common = self._common(task)
        return fair_forms(task, self._tasks[task], common["batch_size"], common["epochs"])

    def axes(self, task: str, form: str) -> Axes:
        """Setting → the values tried by one form on one task."""
        return start(self._tasks[task], self._all(task)[form])

    def candidates_of(self, task: str, form: str) -> list[dict[str, Any]]:
        """All combinations of these values."""
        return [typed(candidate) for candidate in grid(**self.axes(task, form))]

    def _cells(self, factor: str, settings: Any) -> list[Cell]:
        """The cells of every task, form and seed, for each of several settings.

        Args:
            factor: The factor that distinguishes settings.
            settings: Function from task and form to the factor's values, each with its settings.
        """
        overrides = self.settings()
        return [
            Cell(
                self.name,
                form.method,
                {"task": task, "form": name, factor: value},
                {**self._common(task), **form.settings, **own, **overrides[form.method]},
                seed,
            )
            for task in self.task
            for name, form in self._forms(task).items()
            if form.method in self.methods
            for value, own in settings(task, name).items()
            for seed in range(self.first, self.first + self.seeds)
        ]

    def data(self, cell: Cell) -> Dataset:
        """The data of a cell, including test examples."""
        task, inner = self._of_task(cell)
        wanted = cell.settings["data"]
        if wanted.get("cues") == "none":
            return ceiling_data(str(cell.factors["task"]), task, inner, few=bool(wanted.get("few")))
        return task.experiment.data(inner)


def typed(candidate: dict[str, Any]) -> dict[str, Any]:
    """Settings with integers for counts."""
    return {name: int(value) if name in WHOLE else float(value) for name, value in candidate.items()}
