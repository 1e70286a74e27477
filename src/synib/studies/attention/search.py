"""The forms that are compared with attention fusion, masks over tokens, and the search of their settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from synib.data import Dataset
from synib.studies.attention.tasks import as_tokens, attention_tasks
from synib.studies.base import Row, option
from synib.studies.fair.catalogue import LADDERS, NO_CUES, START, Axes, chosen_recipes, fair_forms, own_setting
from synib.studies.fair.forms import FairForms
from synib.studies.fair.search import FairSearch
from synib.studies.forms.catalogue import Form, Task
from synib.training import Cell

TASKS = ("digits", "digits-halves", "digits-modulo-3")
DROPOUTS = (0.0, 0.2, 0.5, 0.7)  # a transformer needs less than the networks of vectors do
# With swapped fill: the forms of the committed comparison.
CORE = (
    "vanilla",
    "confidence, annealed",
    "masked inputs, swapped, annealed",
    "modality dropout, swapped, annealed",
    "SynIB whole, swapped, annealed",
    "SynIB marginal, swapped, annealed",
    "SynIB learned, swapped, annealed",
    NO_CUES,
)


def attention_forms(name: str, task: Task, batch_size: int, epochs: int) -> dict[str, Form]:
    """The forms, by name. Masks select tokens; corrupted tokens are swapped with another example's, or hidden."""
    every = fair_forms(name, task, batch_size, epochs)
    forms = {form: every[form] for form in CORE}
    for form, (method, settings) in forms.items():
        if form.startswith(("masked inputs", "SynIB learned")):
            forms[form] = Form(method, {**settings, "over": "tokens"})
    for form in ("masked inputs", "modality dropout", "SynIB whole"):
        method, settings = forms[f"{form}, swapped, annealed"]
        forms[f"{form}, hidden, annealed"] = Form(method, {**settings, "noise": "hidden"})
    random = {**forms["SynIB whole, swapped, annealed"].settings, "p": 0.5, "over": "tokens"}
    for words, noise in (("swapped", "shuffled"), ("hidden", "hidden")):
        forms[f"SynIB random, {words}, annealed"] = Form("synib-random", {**random, "noise": noise})
    return forms | chosen_recipes(task.steps)


@dataclass(frozen=True)
class AttentionForms(FairForms):
    """The forms that are compared with attention fusion."""

    ladders: ClassVar[Axes] = {**LADDERS, "dropout": DROPOUTS}

    task: tuple[str, ...] = option(("digits",), "Only this task; may be repeated.", among=TASKS)
    form: tuple[str, ...] = option(
        ("core",), "Only this form; core for the committed ones, all for all; may be repeated."
    )

    def __post_init__(self) -> None:
        if "core" in self.form:
            object.__setattr__(self, "form", CORE)
        super().__post_init__()

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return attention_tasks(self.root)

    def _all(self, task: str) -> dict[str, Form]:
        common = self._common(task)
        return attention_forms(task, self._tasks[task], common["batch_size"], common["epochs"])

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, one dropout, three values of the form's own setting."""
        low, high = self._tasks[task].rates
        own = own_setting(self._all(task)[form])
        rates = tuple(rate for rate in LADDERS["lr"] if low <= rate <= high)
        return {"lr": rates, "dropout": (0.0,), own: START[own]}

    def data(self, cell: Cell) -> Dataset:
        """The data of a cell as tokens."""
        return as_tokens(super().data(cell))


@dataclass(frozen=True)
class AttentionSearch(AttentionForms, FairSearch):
    """Settings for attention fusion: equally many candidates, and grids extended until no choice is at an edge."""

    name: ClassVar[str] = "attention-search"
    title: ClassVar[str] = "Attention fusion: which settings to use"
    about: ClassVar[str] = (
        "Every form begins with nine candidates: three learning rates, three values of its own setting, no dropout. If a "
        "value of the chosen candidate is at an edge of what was tried, its neighbours are trained, until the chosen "
        "candidate is better than its neighbours on both sides of every setting. The candidate with the best mean accuracy "
        "on validation data is chosen. Test data are not used."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "form": ("vanilla",)}

    seeds: int = 2

    def choose(self, summary: Sequence[Row]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
        """(task, form) → the candidate with the best accuracy; there is one rule only."""
        return {key: {"accuracy": rules["accuracy"]} for key, rules in super().choose(summary).items()}
