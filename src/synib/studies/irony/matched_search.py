"""Matched irony: the forms that are compared, and the search of their settings on validation actors alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from synib.objective import Family
from synib.studies.base import Row, option
from synib.studies.charts import Table
from synib.studies.fair.catalogue import LADDERS, OWN, Axes, fair_forms
from synib.studies.fair.forms import FairForms
from synib.studies.fair.search import FairSearch
from synib.studies.forms.catalogue import Form, Task
from synib.studies.irony.matched import STEPS, MatchedIrony
from synib.studies.search import describe
from synib.training import Cell

TASK = "irony-matched"
BALANCERS = {
    "D&R": Form("dnr", {"every": 4}),
    "MMPareto": Form("mmpareto", {"detach_heads": False}),
    "AGM": Form("agm", {}),
}
REFERENCES = {"prior": "prior", "complementary": "unimodal"}  # beside the uniform one
ONE_MODALITY = {"voice alone": Form("unimodal-audio", {}), "face alone": Form("unimodal-video", {})}
# What a search begins with, beside three learning rates and the middle one of dropout's values.
START: dict[str, tuple[float, ...]] = {
    "dropout": (0.5,),
    "weight_decay": (1e-5, 1e-4, 1e-3),
    "weight": (1.0, 3.0, 10.0),
    "p": (0.3, 0.5, 0.7),
    "strength": (1.0, 3.0, 10.0),
    "unimodal_weight": (0.1, 0.3, 1.0),
    "alpha": (0.3, 1.0, 3.0),
}
SEARCHED_AT = (0, 8, 16)  # places of the tested actors of the search's splits, whose own clips it does not read


def matched_forms(task: Task, batch_size: int, epochs: int) -> dict[str, Form]:
    """The forms that are compared, by name; all fills are swapped."""
    every = fair_forms("irony", task, batch_size, epochs)
    left_out = ("Gaussian", "zeros", "recipe", "product of experts", "learned mixin", "JTT", "Gradient-Blending")
    forms = {name: form for name, form in every.items() if not name.startswith(left_out) and not _filled(name)}
    for name in [name for name in forms if name.startswith("SynIB")]:
        for words, reference in REFERENCES.items():
            method, settings = forms[name]
            forms[f"{name}, {words} reference"] = Form(method, {**settings, "reference": reference})
    return forms | BALANCERS | ONE_MODALITY


def _filled(name: str) -> bool:
    return "Gaussian" in name or "zeros" in name


@dataclass(frozen=True)
class MatchedForms(FairForms):
    """The forms that are compared on matched irony."""

    family: ClassVar[Family] = MatchedIrony.family
    outcome: ClassVar[str] = "matched"  # the search writes it as <outcome>.json, and the comparison reads it

    task: tuple[str, ...] = option((TASK,), "The only task.", among=(TASK,))

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        experiment, scores = MatchedIrony(root=self.root), "macro F1, and AUC of irony"
        return {TASK: Task(experiment, scores, ("audio", "video"), STEPS, (3e-4, 3e-3), last=True)}

    def _all(self, task: str) -> dict[str, Form]:
        common = self._common(task)
        return matched_forms(self._tasks[task], common["batch_size"], common["epochs"])

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, one dropout, three values of the form's own setting."""
        low, high = self._tasks[task].rates
        own = OWN.get(self._all(task)[form].method, "weight_decay")
        rates = tuple(rate for rate in LADDERS["lr"] if low <= rate <= high)
        return {"lr": rates, "dropout": START["dropout"], own: START[own]}


@dataclass(frozen=True)
class MatchedSearch(MatchedForms, FairSearch):
    """Settings for matched irony: equally many candidates at α = 0.5, extended until no choice is at an edge."""

    name: ClassVar[str] = "irony-matched-search"
    title: ClassVar[str] = "Matched irony: which settings to use"
    about: ClassVar[str] = (
        "Every form begins with nine candidates: three learning rates, three values of its own setting, dropout 0.5. Where a "
        "value of the chosen candidate is at an edge of what was tried, its neighbours are trained, until the chosen candidate "
        "is better than its neighbours on both sides of every setting. The candidate with the best mean AUC of irony on the "
        "validation actors of three splits is chosen, at a training rate of α = 0.5; validation data are ironic at α = 2. Test "
        "actors are not read."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "form": ("vanilla", "SynIB whole, swapped")}

    seeds: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds > len(SEARCHED_AT):
            raise ValueError(f"The search has {len(SEARCHED_AT)} splits; got seeds={self.seeds}.")

    def _of_task(self, cell: Cell) -> tuple[Task, Cell]:
        task, inner = super()._of_task(cell)
        return task, replace(inner, seed=SEARCHED_AT[cell.seed])

    def choose(self, summary: Sequence[Row]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
        """(task, form) → the candidate with the best AUC; there is one rule only."""
        return {key: {"auc": rules["accuracy"]} for key, rules in super().choose(summary).items()}

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        """The chosen candidate of each form and its validation AUC, and those at the end of a ladder."""
        chosen = {form: rules["auc"] for (_, form), rules in self.choose(summary).items()}
        auc = {(r["form"], r["candidate"]): r["mean"] for r in summary if r["metric"] == "synergy"}
        ended = super().conclusions(summary)["at_the_end_of_a_ladder"]
        return {
            self.outcome: {f: {"settings": own, "validation_auc": auc[f, describe(own)]} for f, own in chosen.items()},
            "at_the_end_of_a_ladder": [entry.removeprefix(f"{TASK} | ") for entry in ended],
        }

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        """The chosen candidate of every form, the best AUC first."""
        chosen = {form: describe(rules["auc"]) for (_, form), rules in self.choose(summary).items()}
        rows = [
            {**r, "form": f"{r['form']}: {r['candidate']}"} for r in summary if r["candidate"] == chosen.get(r["form"])
        ]
        auc = {row["form"]: row["mean"] or 0.0 for row in rows if row["metric"] == "synergy"}
        tried = len({(r["form"], r["candidate"]) for r in summary})
        columns = {"irony AUC": "synergy", "macro F1": "total"}
        note = f"Validation data; n counts splits of actors. {tried} candidates of {len(chosen)} forms were trained."
        title = "chosen candidates"
        names = sorted(auc, key=lambda name: -auc[name])
        return [Table.of_metrics(title, columns, rows, names, by="form", of="form", note=note)]
