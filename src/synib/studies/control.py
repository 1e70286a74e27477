"""The control of a synergy subset: vanilla fusion trained on modalities that were shuffled within each class.

Shuffled this way, the modalities contain no interaction. On examples that no unimodal model predicts correctly, the
control shows what mere disagreement with those models achieves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from synib.data import Split
from synib.measure import shuffle_within_class
from synib.studies.base import Experiment, Row

RIVAL, CONTROL = "vanilla", "control"
REAL, SHUFFLED = "real", "shuffled"  # values of the factor "training"


@dataclass(frozen=True)
class Controlled(Experiment):
    """An experiment with a synergy subset, whose factor ``training`` distinguishes vanilla fusion from its control.

    Attributes:
        published: Method → the paper's accuracy on the synergy subset, and on all test examples.
    """

    published: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def points_of(self, method: str) -> list[dict[str, Any]]:
        """Real data, and for vanilla fusion also its control on shuffled data."""
        trainings = (REAL, SHUFFLED) if method == RIVAL else (REAL,)
        return [point | {"training": training} for point in self.points() for training in trainings]

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        values = zip(("subset_accuracy", "test_accuracy"), self.published.get(method, ()), strict=False)
        return dict(values).get(metric)

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """The standard summary, with the control as a separate method that is not compared as a rival."""
        named = [{**row, "method": CONTROL if row["training"] == SHUFFLED else row["method"]} for row in results]
        return [row for row in super().summary(named) if row["method"] != CONTROL or "_over_" not in row["metric"]]


def shuffled(split: Split, seed: int) -> Split:
    """The split with its modalities shuffled within each class."""
    return replace(split, modalities=shuffle_within_class(split.modalities, split.target, seed))
