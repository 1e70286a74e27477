"""Would it have been seen? An interaction of known size, planted into the same rows, and how often the audit finds it."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.measure.stats import standardisation
from synib.own.fitting import Outcome
from synib.own.interaction import averaged, looked_at, products
from synib.own.table import Table
from synib.own.verdict import ENOUGH, TRIES, WORTH, Planted, answer

Numbers = NDArray[np.float64]
LEAST = 10  # rows that have both modalities
EVEN, REDRAWN = 0.1, 10  # the smaller side has that share at least; so many directions are tried for it


def planted(outcome: Outcome, tried: int, seed: int = 0) -> Planted:
    """Draw labels anew from the additive network and a product of two sides, and look for the product as in the real ones.

    In each try a random direction divides the rows of one modality into two halves, another those of a second, and rows on the
    same side of both have other odds (of numbers: another mean) than the rest, so far apart as it takes to be worth 20 points.
    Everything else is as in the data: rows, modalities, what each tells alone, and whether all rows of a group share a label. A
    direction is random as a sum of scaled columns: where few components hold most of the variance, it mostly consists of these.

    Every two modalities have tries of their own, and all must be seen: the first that are not end it.

    Only products are looked for, not fusions, which would have to be trained in each try: they need more rows to see one.

    Args:
        outcome: What was trained on the data, an additive network among it.
        tried: Of how many fusions the surest counts, as in :func:`synib.own.verdict.answer`.
        seed: Of directions and labels, and of the rest as for :func:`synib.own.interaction.products`.
    """
    table, (rows,) = outcome.recipe.table, np.nonzero(looked_at(outcome, seed))
    there = {name: np.asarray(present)[rows] for name, present in table.present.items()}
    unit, target, random = _units(table, rows), np.array(table.target), np.random.default_rng(seed)
    told, real = _mean(averaged(outcome, "additive")[rows], unit), target[rows][np.unique(unit, return_index=True)[1]]
    draw = _classes if table.classes else _numbers
    all_found = all_of = 0
    for a, b in combinations(there, 2):
        found = of = 0
        while (there[a] & there[b]).sum() >= LEAST and found < ENOUGH and of - found <= TRIES - ENOUGH:
            first, second = (_side(table, name, rows, unit, random) for name in (a, b))
            if first is None or second is None:
                break  # a modality that is the same in all rows has no sides
            target[rows] = draw(told, first * second, real, random)[unit]
            one = products(outcome, seed, target)
            found += answer(one.evidence, one.lead, tried) == "present"
            of += 1
        all_found, all_of = all_found + found, all_of + of
        if of and found < ENOUGH:
            return Planted(found, of, (a, b))
    return Planted(all_found, all_of)


def _units(table: Table, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """What has a label of its own, as a number for each row: a group, if no two of its rows differ; or else a row."""
    if table.group is None:
        return np.arange(len(rows))
    _, first, unit = np.unique(np.asarray(table.group)[rows], return_index=True, return_inverse=True)
    target = np.asarray(table.target)[rows]
    return unit if (target == target[first][unit]).all() else np.arange(len(rows))


def _mean(x: Numbers, unit: NDArray[np.int64]) -> Numbers:
    """Of the rows of each unit."""
    total = np.zeros((unit.max() + 1, *x.shape[1:]))
    np.add.at(total, unit, x)
    return np.asarray(total / np.bincount(unit).reshape(-1, *[1] * (x.ndim - 1)))


def _side(
    table: Table, name: str, rows: NDArray[np.int64], unit: NDArray[np.int64], random: np.random.Generator
) -> Numbers | None:
    """1 or -1 for each unit, by a random direction of a modality; 0 for those that lack it. None if nothing divides them."""
    there = np.asarray(table.present[name])[rows]
    x = np.asarray(table.modalities[name][rows[there]], dtype=np.float64)
    _, factor = standardisation(x)
    have, mine = np.unique(unit[there], return_inverse=True)
    for _ in range(REDRAWN):
        along = _mean(x @ (random.normal(size=x.shape[1]) * factor), mine)
        middle = np.median(along)
        # Of few different values many are the middle.
        above = min(along > middle, along >= middle, key=lambda up: abs(up.mean() - 0.5))
        if EVEN <= above.mean() <= 1 - EVEN:
            side = np.zeros(unit.max() + 1)
            side[have] = np.where(above, 1.0, -1.0)
            return side
    return None


def _classes(told: Numbers, side: Numbers, target: NDArray[Any], random: np.random.Generator) -> NDArray[np.int64]:
    """Classes from log-probabilities, which the side moves up for one of the classes and down for another."""
    classes = told.shape[1]
    moved = random.permutation([-1.0, 1.0, *[0.0] * (classes - 2)])
    both = side != 0

    def probabilities(far: float, side: Numbers = side) -> Numbers:
        odds = np.exp(told + far * side[:, None] * moved - (told + far).max(1, keepdims=True))
        return np.asarray(odds / odds.sum(1, keepdims=True))

    def worth(far: float) -> float:
        p, blind = probabilities(far), probabilities(far, np.ones_like(side)) + probabilities(far, -np.ones_like(side))
        return float((p.max(1) - p[np.arange(len(p)), blind.argmax(1)])[both].mean())

    p = probabilities(_first(lambda far: worth(far) >= WORTH))
    return np.minimum((p.cumsum(1) < random.random((len(p), 1))).sum(1), classes - 1)


def _numbers(told: Numbers, side: Numbers, target: NDArray[Any], random: np.random.Generator) -> Numbers:
    """Numbers around the means, as far off as the real ones, which the side moves up and down."""
    without = told[:, 0] + random.permutation(target - told[:, 0])
    return np.asarray(without + side * np.sqrt(WORTH / (1 - WORTH)) * without.std())


def _first(enough: Callable[[float], bool], most: float = 50.0) -> float:
    """The least number, up to a largest one, that is enough."""
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
