"""The control of a synergy subset: vanilla fusion trained on modalities that were shuffled within each class.

Shuffled so, the modalities hold no interaction. On examples that no unimodal model gets right, the control shows what
mere disagreement with those models reaches.
"""

from collections.abc import Iterable
from dataclasses import replace

from synib.data import Split
from synib.measure import shuffle_within_class
from synib.studies.base import Row

RIVAL, CONTROL = "vanilla", "control"
REAL, SHUFFLED = "real", "shuffled"  # values of the factor "training"


def trainings(method: str) -> tuple[str, ...]:
    """What a method is trained on: real data, and beside vanilla fusion its control on shuffled data."""
    return (REAL, SHUFFLED) if method == RIVAL else (REAL,)


def shuffled(split: Split, seed: int) -> Split:
    """The split with its modalities shuffled within each class."""
    return replace(split, modalities=shuffle_within_class(split.modalities, split.target, seed))


def name_control(results: Iterable[Row]) -> list[Row]:
    """The results with the control as a method of its own."""
    return [{**row, "method": CONTROL if row["training"] == SHUFFLED else row["method"]} for row in results]
