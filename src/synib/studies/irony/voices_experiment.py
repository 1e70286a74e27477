"""Matched irony from spectrograms of the voices: the search of settings, and the comparison at test."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from synib.studies.base import option
from synib.studies.fair.catalogue import LADDERS, Axes
from synib.studies.forms.catalogue import Task
from synib.studies.irony.matched import ACTORS
from synib.studies.irony.matched_experiment import IronyMatched
from synib.studies.irony.matched_search import SEARCHED_AT, TASK, MatchedForms, MatchedSearch
from synib.studies.irony.voices import VoiceIrony

FORMS = ("vanilla", "confidence, annealed", "SynIB marginal, swapped, annealed", "D&R")
DATA = (
    "RAVDESS: log-mel spectrograms of the recordings (96 frames of 40 bands, standardised for each actor without labels) "
    "through a convolutional network that is trained with the rest, and statistics of the faces' action units. Every example "
    "joins the face and the voice of two takes of the same actor, statement and intensity; it is ironic if and only if their "
    "emotions differ. "
)


@dataclass(frozen=True)
class VoiceForms(MatchedForms):
    """The forms that are compared on matched irony from spectrograms."""

    ladders: ClassVar[Axes] = {**LADDERS, "dropout": (0.0, 0.2, 0.5, 0.7)}
    outcome: ClassVar[str] = "voices"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "form": ("vanilla",)}

    form: tuple[str, ...] = option(FORMS, "Only this form, or all; may be repeated.")

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {TASK: super()._tasks[TASK]._replace(experiment=VoiceIrony(root=self.root))}

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, one dropout, three values of the form's own setting."""
        return super().axes(task, form) | {"dropout": (0.2,)}


@dataclass(frozen=True)
class VoicesSearch(VoiceForms, MatchedSearch):
    """Settings for matched irony from spectrograms: equally many candidates, extended until no choice is at an edge."""

    name: ClassVar[str] = "irony-voices-search"
    title: ClassVar[str] = "Matched irony from spectrograms: which settings to use"
    about: ClassVar[str] = DATA + (
        "Every form begins with nine candidates: three learning rates, three values of its own setting, dropout 0.2. The "
        "neighbours of the chosen candidate are trained until it is better than all of them. The candidate with the best mean "
        "AUC of irony on the validation actors of three splits is chosen, at a training rate of α = 0.1; validation data are "
        "ironic at α = 2. Test actors are not read."
    )

    seeds: int = len(SEARCHED_AT)


@dataclass(frozen=True)
class IronyVoices(VoiceForms, IronyMatched):
    """Matched irony with encoders that train: who finds contradictions between faces and spectrograms of voices?"""

    name: ClassVar[str] = "irony-voices"
    title: ClassVar[str] = (
        "Matched irony from spectrograms: who finds contradictions when the voice's encoder is trained too?"
    )
    about: ClassVar[str] = DATA + (
        "One actor is tested, three validate, 20 train, for each of the 24 actors. Training data are ironic at α = 0.1; "
        "validation and test data always at α = 2. Settings were chosen on validation actors (irony-voices-search). Forms, "
        "grid, rule of selection and claims were written down before the first run (PLAN.md)."
    )

    seeds: int = ACTORS
    alpha: tuple[float, ...] = option((0.1,), "Irony rate of training data; may be repeated.")
