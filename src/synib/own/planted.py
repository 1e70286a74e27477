"""Statistical power: an interaction of known size, planted into the same rows, and how often the audit detects it."""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.measure.stats import standardisation
from synib.own.decision import decide
from synib.own.fitting import Outcome
from synib.own.gains import product_rows, products_gain
from synib.own.row_scores import Numbers, seed_average
from synib.own.table import Table

Rows = NDArray[np.int64]
WORTH = (
    0.2  # of accuracy (or of explained variance): an interaction so large must be detected, or nothing can be concluded
)
TRIES, ENOUGH = 10, 8  # at most so many tries, of which so many must detect it
LEAST = 10  # rows that have both modalities
SMALLER_SIDE, REDRAWS = 0.1, 10  # the smaller side has that share at least; so many directions are tried for it


class Planted(NamedTuple):
    """How often a planted interaction was detected.

    Args:
        found, of: Detections, and tries; of two modalities they end after 8 detections or 3 failures.
        unseen: The first two modalities whose interaction was not detected often enough.
        worth: By how much a model that knows it exceeds the additive combination, in accuracy (or explained variance), among
            rows that have both.
    """

    found: int
    of: int
    unseen: tuple[str, str] | None = None
    worth: float = WORTH

    @property
    def seen(self) -> bool:
        """Whether the test is sensitive enough for "no synergy was found" to mean something."""
        return bool(self.of) and self.unseen is None


def planted(outcome: Outcome, tried: int, seed: int = 0) -> Planted:
    """Draw labels anew from the additive network and a product of two sides, and test for the product as in the real data.

    In each try a random direction divides the rows of one modality into two halves, another those of a second, and rows on the
    same side of both have other odds (of numbers: another mean) than the rest, so far apart as it takes to be worth 20 points.
    All else is as in the data: rows, modalities, what each predicts alone, and whether all rows of a group share a label. A
    direction is a random sum of scaled columns: where few components hold most of the variance, it mostly consists of these.

    Every two modalities have tries of their own, and all must be detected: the first that are not end it.

    Only the regression on products is tested, not fusions, which would have to be trained in each try: they need more rows.

    Args:
        outcome: The models trained on the data, an additive network among them.
        tried: Of how many fusions the best counts, as in :func:`synib.own.decision.decide`.
        seed: Seed for directions and labels, and for the rest as in :func:`synib.own.gains.products_gain`.
    """
    table, (rows,) = outcome.table, np.nonzero(product_rows(outcome, seed))
    present = {name: has[rows] for name, has in table.present.items()}
    unit, target, random = _units(table, rows), np.array(table.target), np.random.default_rng(seed)
    additive = _unit_means(seed_average(outcome, "additive")[rows], unit)
    real = target[rows][np.unique(unit, return_index=True)[1]]
    draw = _draw_classes if table.classes else _draw_numbers
    found = tries = 0
    for a, b in combinations(present, 2):
        pair_found = pair_tries = 0
        enough_rows = (present[a] & present[b]).sum() >= LEAST
        while enough_rows and pair_found < ENOUGH and pair_tries - pair_found <= TRIES - ENOUGH:
            first, second = (_side(table, name, rows, unit, random) for name in (a, b))
            if first is None or second is None:
                break  # a modality that is the same in all rows has no sides
            target[rows] = draw(additive, first * second, real, random)[unit]
            gain = products_gain(outcome, seed, target)
            pair_found += decide(gain.evidence, gain.lead, tried) == "present"
            pair_tries += 1
        if pair_tries and pair_found < ENOUGH:
            return Planted(pair_found, pair_tries, (a, b))
        found, tries = found + pair_found, tries + pair_tries
    return Planted(found, tries)


def _units(table: Table, rows: Rows) -> Rows:
    """The number of each row's unit, which has one label: its group, if all rows of every group agree; or else the row."""
    if table.group is None:
        return np.arange(len(rows))
    _, first, unit = np.unique(table.group[rows], return_index=True, return_inverse=True)
    target = table.target[rows]
    return unit if (target == target[first][unit]).all() else np.arange(len(rows))


def _unit_means(x: Numbers, unit: Rows) -> Numbers:
    """The mean of each unit's rows."""
    total = np.zeros((unit.max() + 1, *x.shape[1:]))
    np.add.at(total, unit, x)
    return np.asarray(total / np.bincount(unit).reshape(-1, *[1] * (x.ndim - 1)))


def _side(table: Table, name: str, rows: Rows, unit: Rows, random: np.random.Generator) -> Numbers | None:
    """1 or -1 for each unit, by a random direction of a modality; 0 for those that lack it. None if nothing divides them."""
    present = table.present[name][rows]
    x = np.asarray(table.modalities[name][rows[present]], dtype=np.float64)
    _, factor = standardisation(x)
    units, unit_of_row = np.unique(unit[present], return_inverse=True)
    for _ in range(REDRAWS):
        along = _unit_means(x @ (random.normal(size=x.shape[1]) * factor), unit_of_row)
        middle = np.median(along)
        # Where values repeat, many may equal the median.
        above = min(along > middle, along >= middle, key=lambda up: abs(up.mean() - 0.5))
        if SMALLER_SIDE <= above.mean() <= 1 - SMALLER_SIDE:
            side = np.zeros(unit.max() + 1)
            side[units] = np.where(above, 1.0, -1.0)
            return side
    return None


def _draw_classes(additive: Numbers, side: Numbers, target: NDArray[Any], random: np.random.Generator) -> Rows:
    """Classes from log-probabilities, which the side raises for one of the classes and lowers for another."""
    classes = additive.shape[1]
    moved = random.permutation([-1.0, 1.0, *[0.0] * (classes - 2)])
    has_both = side != 0

    def probabilities(shift: float, side: Numbers = side) -> Numbers:
        odds = np.exp(additive + shift * side[:, None] * moved - (additive + shift).max(1, keepdims=True))
        return np.asarray(odds / odds.sum(1, keepdims=True))

    def worth(shift: float) -> float:
        p, ones = probabilities(shift), np.ones_like(side)
        without_side = probabilities(shift, ones) + probabilities(shift, -ones)
        return float((p.max(1) - p[np.arange(len(p)), without_side.argmax(1)])[has_both].mean())

    p = probabilities(_least(lambda shift: worth(shift) >= WORTH))
    return np.minimum((p.cumsum(1) < random.random((len(p), 1))).sum(1), classes - 1)


def _draw_numbers(additive: Numbers, side: Numbers, target: NDArray[Any], random: np.random.Generator) -> Numbers:
    """Numbers around the means, with the residuals of the real ones, which the side moves up and down."""
    without = additive[:, 0] + random.permutation(target - additive[:, 0])
    return np.asarray(without + side * np.sqrt(WORTH / (1 - WORTH)) * without.std())


def _least(enough: Callable[[float], bool], most: float = 50.0) -> float:
    """The least number up to ``most`` that is enough, by bisection."""
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
