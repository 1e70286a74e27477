"""Rows that a fusion model predicts better than every single modality: what an interaction looks like in the data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synib.own.audit import Audit
from synib.own.evidence import linear_predictor
from synib.own.metric import probabilities
from synib.own.raw.show import Shown, shown_rows

ROWS = 6  # that are shown
GAIN = 0.2  # in the probability of the truth, at least


@dataclass(frozen=True)
class Example:
    """A row of a user's file.

    Args:
        row: Its number in the file, from 0.
        truth: Its class.
        together: The probability that the fusion model gives the truth; the model was not trained on the row.
        alone: Modality → the same of its own model.
        shown: What the row holds.
    """

    row: int
    truth: str
    together: float
    alone: dict[str, float]
    shown: list[Shown]


def examples(audit: Audit, count: int = ROWS) -> list[Example]:
    """Tested rows with all modalities in which the fusion's probability of the truth is furthest above each modality's own.

    None if the data have no raw columns, the target is not a class, or the gain is below 0.2.

    Args:
        audit: The audit.
        count: How many rows at most.
    """
    table = audit.table
    if table.raw is None or table.row_numbers is None or table.kind not in ("classification", "ordinal"):
        return []
    rows = audit.evidence.rows
    fusion = max((m for m in audit.outcome.methods if m in audit.evidence.scores), key=lambda m: audit.scores[m].value)
    together = _of_truth(audit, fusion)
    alone = {name: _of_truth(audit, f"unimodal-{name}") for name in table.modalities}
    gain = together - np.max(list(alone.values()), 0)
    whole = np.all([present[rows] for present in table.present.values()], 0)
    candidates = np.flatnonzero(whole & (gain >= GAIN))
    best = _spread(candidates[np.argsort(-gain[candidates], kind="stable")], table.target[rows], count)
    numbers = [int(table.row_numbers[rows[k]]) for k in best]
    held = shown_rows(table.raw, numbers)
    return [
        Example(
            number,
            table.classes[int(table.target[rows[k]])],
            float(together[k]),
            {name: float(p[k]) for name, p in alone.items()},
            held[number],
        )
        for k, number in zip(best, numbers, strict=True)
    ]


def _of_truth(audit: Audit, method: str) -> NDArray[np.float64]:
    """The probability that a method gives the true class of each tested row."""
    rows = audit.evidence.rows
    p = probabilities(linear_predictor(audit.outcome, method)[rows])
    return np.asarray(p[np.arange(len(rows)), audit.table.target[rows].astype(np.int64)])


def _spread(ranked: NDArray[np.int64], target: NDArray[np.generic], count: int) -> list[int]:
    """The first of each class in turn."""
    by_class = [ranked[target[ranked] == label] for label in np.unique(target[ranked])]
    turns = [int(of[k]) for k in range(count) for of in by_class if k < len(of)]
    return turns[:count]
