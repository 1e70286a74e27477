"""The compared methods on CREMA-D's crowd votes, and the search of their settings on validation actors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from synib.data import Dataset, Split
from synib.methods.hooks import FitsAtEnd
from synib.objective import Batch, Family
from synib.studies.base import SHARED, Row, option
from synib.studies.crema_votes.data import FOLDS
from synib.studies.crema_votes.experiment import CremaVotes, CremaVotesEmotion, CremaVotesLevel
from synib.studies.evaluation import predictions
from synib.studies.fair.candidates import LEARNED
from synib.studies.fair.catalogue import LADDERS, OWN, Axes
from synib.studies.fair.search import FairSearch
from synib.studies.forms.catalogue import Form, Task
from synib.tokens import take
from synib.training import Cell, Learner

TARGETS: Mapping[str, type[CremaVotes]] = {"emotion": CremaVotesEmotion, "level": CremaVotesLevel}
TRAINING = {"batch_size": 128, "unimodal_weight": 1.0, "hidden": 64, "latent": 32, "detach_heads": True}
ANNEALED = {"weight_schedule": "anneal", "weight_steps": 800}  # of about 1,000 steps
SWAPPED = {"noise": "shuffled", **ANNEALED}
# Named as methods: every penalty is annealed and every fill swapped.
FORMS: Mapping[str, Mapping[str, Any]] = {
    "unimodal-voice": {},
    "unimodal-face": {},
    "additive": {},
    "stacked": {},
    "vanilla": {},
    "confidence": ANNEALED,
    "masked-random": {"weight": 1.0, **SWAPPED},
    "modality-dropout": SWAPPED,
    "synib-random": {"p": 1.0, **SWAPPED},
    "synib-learned": {**LEARNED, **SWAPPED},
    "synib-marginal": {"draws": 16, **ANNEALED},
}
DISCRETE = ("stacked",)  # for classes only
START: Axes = {
    "lr": (3e-4, 1e-3, 3e-3),
    "dropout": (0.0,),
    "weight_decay": (1e-5, 1e-4, 1e-3),
    "weight": (0.1, 0.3, 1.0),
    "p": (0.1, 0.2, 0.3),
}


@dataclass(frozen=True)
class CremaVotesSearch(FairSearch):
    """Settings for CREMA-D's crowd votes: equally many candidates, and grids extended until no choice is at an edge."""

    name: ClassVar[str] = "crema-votes-search"
    title: ClassVar[str] = "CREMA-D from crowd votes: which settings to use"
    about: ClassVar[str] = (
        "Every method begins with nine candidates: three learning rates, three values of its own setting (penalty weight, "
        "masking probability or weight decay), no dropout. The neighbours of the chosen candidate are trained until it is "
        "better than all of them. The candidate with the best mean score (accuracy of the emotion, explained variance of the "
        "level) on the validation actors of three folds is chosen. Every penalty is annealed, every fill is swapped. In the "
        "tables total is this score, and synergy is the same on clips whose voice and face have different winners. Test "
        "actors are not read."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("emotion",), "form": ("vanilla",)}
    family: ClassVar[Family] = CremaVotesEmotion.family
    ladders: ClassVar[Axes] = {
        **LADDERS,
        "dropout": (0.0, 0.2, 0.5, 0.7),
        "weight": (0.0003, 0.001, 0.003, *LADDERS["weight"]),
        "p": (0.01, 0.02, *LADDERS["p"]),
    }

    task: tuple[str, ...] = option(tuple(TARGETS), "Only this target; may be repeated.", among=TARGETS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first + self.seeds > FOLDS:
            raise ValueError(f"Each seed is one of {FOLDS} folds; got first={self.first} and seeds={self.seeds}.")

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        def task(kind: type[CremaVotes]) -> Task:
            score = next(iter(kind.columns))
            return Task(
                kind(root=self.root), f"{score}, and where voice and face disagree", ("voice", "face"), 0, (0, 1)
            )

        return {name: task(kind) for name, kind in TARGETS.items()}

    def _all(self, task: str) -> dict[str, Form]:
        left_out = () if TARGETS[task].family.discrete else DISCRETE
        return {name: Form(name, settings) for name, settings in FORMS.items() if name not in left_out}

    def _common(self, task: str) -> dict[str, Any]:
        return {**TRAINING, "weight_decay": 1e-4, **self._tasks[task].experiment.fixed(), "data": {"task": task}}

    def axes(self, task: str, form: str) -> Axes:
        """Three learning rates, no dropout, three values of the method's own setting."""
        own = {**OWN, "synib-marginal": "weight"}.get(form, "weight_decay")
        return {name: START[name] for name in ("lr", "dropout", own)}

    def _of_task(self, cell: Cell) -> tuple[Task, Cell]:
        task, inner = super()._of_task(cell)
        return task, replace(inner, factors={"fold": cell.seed})

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Scores on validation data; what is fitted after training is fitted on the other half of them."""
        task, _ = self._of_task(cell)
        experiment, split = task.experiment, data.validation
        assert isinstance(experiment, CremaVotes)
        prediction = cross_fitted(learner, split)
        disagree = split.groups["disagree"].bool()
        return {
            "total": experiment.score(prediction, split.target),
            "synergy": experiment.score(prediction[disagree], split.target[disagree]),
            "log_loss": experiment.family.nll(prediction, split.target).mean().item(),
        }

    def choose(self, summary: Sequence[Row]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
        """(target, method) → the candidate with the best score; there is one rule only."""
        return {key: {"accuracy": rules["accuracy"]} for key, rules in super().choose(summary).items()}

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        """Settings as the experiments read them, and the settings that are at the end of a ladder."""
        settings: dict[str, dict[str, dict[str, Any]]] = {}
        for (task, method), rules in self.choose(summary).items():
            shared = {name: value for name, value in self._common(task).items() if name != "data"}
            of_target = settings.setdefault(TARGETS[task].name, {SHARED: shared})
            of_target[method] = {**FORMS[method], **rules["accuracy"]}
        ended = super().conclusions(summary)["at_the_end_of_a_ladder"]
        return {"settings": settings, "at_the_end_of_a_ladder": ended}


def cross_fitted(learner: Learner, split: Split) -> Tensor:
    """Predictions for a split; a method that fits something after training fits it on the other half of the split."""
    if not isinstance(learner.method, FitsAtEnd):
        return predictions(learner, split.modalities, len(split))
    even = torch.arange(len(split)) % 2 == 0
    found: dict[int, Tensor] = {}
    for half in (even, ~even):
        fit, other = ({name: take(x, rows) for name, x in split.modalities.items()} for rows in (half, ~half))
        with torch.no_grad():
            learner.method.settle(learner.model, Batch(fit, split.target[half]))
        found |= zip((~half).nonzero()[:, 0].tolist(), predictions(learner, other, len(split)), strict=True)
    return torch.stack([found[i] for i in range(len(split))])
