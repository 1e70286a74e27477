"""The tasks of the comparison: their source, chance level, independent unit, and ceilings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from synib.data import Dataset
from synib.objective import Categorical, Family
from synib.studies.digits.data import DIGITS, RuleName
from synib.studies.digits.experiment import SPEAKERS, DigitsScarce, digits_data
from synib.studies.forms.catalogue import Task
from synib.studies.irony.data import FOLDS, SIMILAR_FOLDS
from synib.studies.irony.experiment import IronyRates
from synib.studies.pid_xor.compare import ComparePID
from synib.studies.pid_xor.data import pid_xor
from synib.training import Cell

ONLY_SYNERGY = (0.0, 0.0, 0.0, 1.0)  # shares of U1, U2, R and S
SHARE = 0.1  # of synergistic examples, where there are cues


@dataclass(frozen=True)
class DigitsHalves(DigitsScarce):
    """Spoken × written digits: is exactly one of them at least 5?"""

    label_rule: ClassVar[RuleName] = "halves"


@dataclass(frozen=True)
class DigitsModulo(DigitsScarce):
    """Spoken × written digits from 0 to 8: their sum modulo 3."""

    label_rule: ClassVar[RuleName] = "modulo-3"
    family: ClassVar[Family] = Categorical()


@dataclass(frozen=True)
class DigitsPairs(DigitsScarce):
    """Spoken × written digits from 0 to 7: is exactly one of them 2, 3, 6 or 7?"""

    label_rule: ClassVar[RuleName] = "pairs"


@dataclass(frozen=True)
class BalancedIrony(IronyRates):
    """Irony with balanced donors, so that neither modality alone predicts it; the seed determines fold and assignment."""

    def searched_at(self) -> dict[str, Any]:
        return {"alpha": 0.5, "donors": "balanced"}


class Fairness(NamedTuple):
    """Properties of a task needed by the comparison, beyond its data and model.

    Args:
        chance: Chance level of synergy.
        unit: The independent unit, and the number of units.
        of_seed: Function from a seed to its unit.
        test_share: The fraction of units in each test set, if units share training data; ``None`` if they are
            independent.
        few: Number of training examples without a cue; none if a task has no cues.
        without_cues: The data of a cell with as many examples, all of them synergistic.
    """

    chance: float
    unit: str
    of_seed: Callable[[int], int]
    test_share: float | None
    few: int | None = None
    without_cues: Callable[[Task, Cell, dict[str, int]], Dataset] | None = None


def _digits(task: Task, cell: Cell, sizes: dict[str, int]) -> Dataset:
    experiment = task.experiment
    assert isinstance(experiment, DigitsScarce)
    root = str(DIGITS.find(experiment.root or None))
    return digits_data(root, ONLY_SYNERGY, cell.seed, experiment.label_rule, **sizes)


def _pid_xor(task: Task, cell: Cell, sizes: dict[str, int]) -> Dataset:
    return pid_xor(*ONLY_SYNERGY, seed=cell.seed, projection_seed=cell.seed, **sizes)


def _speakers(chance: float) -> Fairness:
    return Fairness(chance, "speaker", lambda seed: seed % SPEAKERS, 1 / SPEAKERS, round(4000 * SHARE), _digits)


FAIRNESS: dict[str, Fairness] = {
    "digits": _speakers(1 / 2),
    "digits-halves": _speakers(1 / 2),
    "digits-modulo-3": _speakers(1 / 3),
    "digits-pairs": _speakers(1 / 2),
    "pid-xor": Fairness(1 / 2, "seed", lambda seed: seed, None, round(1800 * SHARE), _pid_xor),
    "irony": Fairness(1 / 2, "fold", lambda seed: SIMILAR_FOLDS[seed % len(SIMILAR_FOLDS)], 1 / FOLDS),
}


def fair_tasks(root: str) -> dict[str, Task]:
    """All tasks, by name; ``root`` is the folder of the data."""
    scores, both, rates = "accuracy, and on examples without a cue", ("audio", "image"), (1e-3, 1e-2)
    parity = Task(DigitsScarce(root=root), scores, both, 960, rates)
    return {
        "digits": parity,
        "digits-halves": parity._replace(experiment=DigitsHalves(root=root)),
        "digits-modulo-3": parity._replace(experiment=DigitsModulo(root=root)),
        "digits-pairs": parity._replace(experiment=DigitsPairs(root=root)),
        "pid-xor": Task(ComparePID(), scores, ("x1", "x2"), 450, (3e-4, 3e-3)),
        "irony": Task(
            BalancedIrony(root=root), "macro F1, and AUC of irony", ("audio", "video"), 840, (3e-4, 3e-3), last=True
        ),
    }


def ceiling_data(name: str, task: Task, cell: Cell, few: bool) -> Dataset:
    """The data of a ceiling without cues: with as many training examples as usual, or only as many as usually have no cue."""
    fairness = FAIRNESS[name]
    assert fairness.without_cues is not None
    assert fairness.few is not None
    return fairness.without_cues(task, cell, {"train": fairness.few} if few else {})
