"""The search of the fair comparison: grids grow until no chosen value is at an edge, using validation data only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch

from synib.data import Dataset, Split
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Figure, Table
from synib.studies.fair.catalogue import ends, neighbours
from synib.studies.fair.forms import SELECTIONS, FairForms, typed
from synib.studies.forms.catalogue import Task
from synib.studies.search import describe
from synib.training import Cell

METRICS = {"total": "total", "synergy": "synergy", "log-loss": "log_loss"}
EXTENSION = "extend names values of the ladders, as in 'digits | vanilla | lr=0.03, dropout=0, weight_decay=0.0001'"
NONE = ("none",)  # an option that may be repeated names one value at least


@dataclass(frozen=True)
class FairSearch(FairForms):
    """Settings for the fair comparison: equally many candidates, and grids extended until no choice is at an edge."""

    name: ClassVar[str] = "fair-search"
    title: ClassVar[str] = "Fair comparison: which settings to use"
    about: ClassVar[str] = (
        "Every form (method, schedule, fill) starts with equally many candidates on each task. If a value "
        "of the chosen candidate is at an edge of the grid, only the next value is trained, with the "
        "other settings unchanged; this is repeated until the chosen candidate is better than its "
        "neighbours on both sides of every setting. Candidates are chosen by the rule of the task on "
        "validation data (accuracy; for irony AUC among those with the best macro F1) and, as an "
        "alternative, by interaction gain: since the unimodal models are the same for all candidates, "
        "this is the one with the lowest cross-fitted log-loss after temperature scaling. Test data are "
        "not used."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("pid-xor",), "form": ("vanilla", "SynIB whole, swapped")}

    seeds: int = 3
    extend: tuple[str, ...] = option(
        NONE,
        "TASK | FORM | SETTING=VALUE, ...: a candidate in addition to the initial ones; the run adds them "
        "automatically.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for task, form, candidate in self._extensions:
            known = task in self._tasks and form in self._all(task) and candidate.keys() == self.axes(task, form).keys()
            if not known or any(value not in self.ladders[name] for name, value in candidate.items()):
                raise ValueError(f"{EXTENSION}; got {' | '.join((task, form, describe(candidate)))!r}.")

    @cached_property
    def _extensions(self) -> list[tuple[str, str, dict[str, Any]]]:
        found = []
        for entry in self.extend if self.extend != NONE else ():
            try:
                task, form, candidate = (part.strip() for part in entry.split("|"))
                found.append((task, form, parsed(candidate)))
            except ValueError:
                raise ValueError(f"{EXTENSION}; got {entry!r}.") from None
        return found

    def candidates_of(self, task: str, form: str) -> list[dict[str, Any]]:
        """The initial grid, and its extensions."""
        more = [candidate for of, name, candidate in self._extensions if (of, name) == (task, form)]
        return super().candidates_of(task, form) + more

    def cells(self) -> list[Cell]:
        return self._cells("candidate", lambda task, form: {describe(c): c for c in self.candidates_of(task, form)})

    def data(self, cell: Cell) -> Dataset:
        return replace(super().data(cell), test=None)

    def _of_calibrated(self, task: Task, logits: torch.Tensor, split: Split) -> dict[str, float]:
        return {"log_loss": task.experiment.family.mean_nll(logits, split.target).item()}

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Means over seeds of every candidate."""
        return Experiment.summary(self, results)

    def choose(self, summary: Sequence[Row]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
        """(task, form) → selection rule → the chosen candidate; one with failed models ranks last."""
        scores: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        for row in summary:
            if row["metric"] in METRICS.values():
                failed = row["mean"] is None or row["n"] < self.seeds
                worst = float("inf") if row["metric"] == "log_loss" else float("-inf")
                # Rounded: the last bits of a sum differ between machines and must not decide between equal candidates.
                score = worst if failed else round(row["mean"], 9)
                of_form = scores.setdefault((row["task"], row["form"]), {})
                of_form.setdefault(row["candidate"], {})[row["metric"]] = score
        chosen = {}
        for (task, form), candidates in scores.items():
            named = [
                {
                    "validation_accuracy": s["total"],
                    "validation_macro_f1": s["total"],
                    "validation_irony_auc": s["synergy"],
                }
                for s in candidates.values()
            ]
            best = {
                "accuracy": list(candidates)[self._tasks[task].experiment.prefer(named)],
                "gain": min(candidates, key=lambda name: candidates[name]["log_loss"]),
            }
            chosen[task, form] = {rule: parsed(name) for rule, name in best.items()}
        return chosen

    def widened(self, results: Sequence[Row]) -> tuple[Self, str] | None:
        """The search extended by the untried neighbours of its choice, and a sentence on them; ``None`` if there are none."""
        new, edges = [], 0
        for (task, form), rules in self.choose(self.summary(results)).items():
            tried = self.candidates_of(task, form)
            beyond = {
                describe(typed(near)): near
                for chosen in rules.values()
                for near in neighbours(chosen, self.ladders)
                if near not in tried
            }
            new += [f"{task} | {form} | {name}" for name in beyond]
            edges += bool(beyond)
        if not new:
            return None
        before = self.extend if self.extend != NONE else ()
        why = f"Forms with a chosen value at an edge of the grid: {edges}. Candidates added: {'; '.join(new)}."
        return replace(self, extend=(*before, *new)), why

    def resumed(self, config: Any) -> Self:
        """This search with the extensions in a folder's config; unchanged if that belongs to another run."""
        if not isinstance(config, Mapping) or not isinstance(config.get("extend"), list):
            return self
        there = tuple(config["extend"])
        if there == NONE or (self.extend not in (NONE, there[: len(self.extend)])):
            return self
        return replace(self, extend=there)

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        """The chosen candidates of both rules, and those at the end of a grid, beyond which nothing was tried."""
        chosen = self.choose(summary)
        settings: dict[str, dict[str, Any]] = {}
        for (task, form), rules in chosen.items():
            settings.setdefault(task, {})[form] = rules
        ended = [
            f"{task} | {form} | {name}"
            for (task, form), rules in chosen.items()
            for name in dict.fromkeys(name for own in rules.values() for name in ends(own, self.ladders))
        ]
        return {"settings": settings, "at_the_end_of_a_ladder": ended}

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """The chosen candidate of every form, by each rule."""
        chosen, tables = self.choose(summary), []
        for task in dict.fromkeys(task for task, _ in chosen):
            for rule, meaning in SELECTIONS.items():
                names = {
                    form: describe(rules[rule]) for (of, form), rules in chosen.items() if of == task and rule in rules
                }
                if not names:
                    continue
                rows = [
                    {**row, "form": f"{row['form']}: {row['candidate']}"}
                    for row in summary
                    if row["task"] == task and row["candidate"] == names.get(row["form"])
                ]
                who = [f"{form}: {name}" for form, name in names.items()]
                title = f"{task}, chosen by {meaning}"
                tables.append(Table.of_metrics(title, METRICS, rows, who, by="form", of="form"))
        return tables

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return []


def parsed(candidate: str) -> dict[str, Any]:
    """The settings written by :func:`~synib.studies.search.describe`."""
    return typed({name: float(value) for name, _, value in (part.partition("=") for part in candidate.split(", "))})
