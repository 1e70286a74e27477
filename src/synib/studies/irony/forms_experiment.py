"""Matched irony with every form and a wider search: the search of settings, and the comparison at test."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.studies.base import option
from synib.studies.fair.catalogue import CHOSEN, OWN, Axes, recipes
from synib.studies.forms.catalogue import Form
from synib.studies.irony.matched import ACTORS
from synib.studies.irony.matched_experiment import IronyMatched
from synib.studies.irony.matched_search import REFERENCES, SEARCHED_AT, START, MatchedForms, MatchedSearch

THE_RECIPE = "SynIB recipe"
DROPOUTS = (0.0, 0.5)


@dataclass(frozen=True)
class EveryForm(MatchedForms):
    """The forms of matched irony and the recipe, each with 18 candidates at the start of its search."""

    outcome: ClassVar[str] = "forms"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "form": ("vanilla",)}

    form: tuple[str, ...] = option(("all",), "Only this form; may be repeated.")

    def _all(self, task: str) -> dict[str, Form]:
        method, settings = recipes(self._tasks[task].steps)[CHOSEN]
        by_reference = {
            f"{THE_RECIPE}, {words} reference": Form(method, {**settings, "reference": reference})
            for words, reference in REFERENCES.items()
        }
        return {**super()._all(task), THE_RECIPE: Form(method, settings), **by_reference}

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, two dropouts, three values of the form's own setting; the recipe's weight is not searched."""
        own = "weight_decay" if form.startswith(THE_RECIPE) else OWN.get(self._all(task)[form].method, "weight_decay")
        rates: Axes = {"lr": super().axes(task, form)["lr"]}
        return {**rates, "dropout": DROPOUTS, own: START[own]}


@dataclass(frozen=True)
class IronyFormsSearch(EveryForm, MatchedSearch):
    """Settings of every form for matched irony: equally many candidates, extended until no choice is at an edge."""

    name: ClassVar[str] = "irony-forms-search"
    title: ClassVar[str] = "Matched irony, every form: which settings to use"
    about: ClassVar[str] = (
        "Every form begins with 18 candidates: three learning rates, two dropouts, three values of its own setting. The "
        "neighbours of the chosen candidate are trained until it is better than all of them. The candidate with the best mean "
        "AUC of irony on the validation actors of three splits is chosen, at a training rate of α = 0.5; validation data are "
        "ironic at α = 2. Test actors are not read."
    )

    seeds: int = len(SEARCHED_AT)


@dataclass(frozen=True)
class IronyForms(EveryForm, IronyMatched):
    """Matched irony, every form at every rate: who finds contradictions of face and voice when nothing else tells?"""

    name: ClassVar[str] = "irony-forms"
    title: ClassVar[str] = "Matched irony, every form: who finds faces and voices that contradict each other?"
    about: ClassVar[str] = (
        "The data, network and units of irony-matched. Every form is searched and tested here: every mask of SynIB, "
        "constant and annealed, with three references; the recipe; every rival. Settings were chosen at α = 0.5 on validation "
        "actors (irony-forms-search) and serve every α. Forms, grid, rule of selection and claims were written down before "
        "the run (PLAN.md)."
    )

    seeds: int = ACTORS
