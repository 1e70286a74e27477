"""Would it have been seen? An interaction of known size, planted into the same rows, and how often the audit finds it."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from synib.audit.fitting import Outcome
from synib.audit.interaction import averaged, looked_at, products
from synib.audit.verdict import ENOUGH, TRIES, WORTH, Planted, answer
from synib.data.own import Table

Numbers = NDArray[np.float64]
LEAST = 10  # rows that have both modalities


def planted(outcome: Outcome, tried: int, seed: int = 0) -> Planted:
    """Draw labels anew from the additive network and a product of two sides, and look for the product as in the real ones.

    In each try a random direction divides the rows of one modality into two halves, another those of a second, and rows on the
    same side of both have other odds (of numbers: another mean) than the rest, so far apart as it takes to be worth 20 points.
    Everything else is as in the data: rows, modalities, and what each tells alone. A direction is random as a sum of scaled
    columns: where few components hold most of the variance, it mostly consists of these.

    Only products are looked for, not fusions, which would have to be trained in each try: they need more rows to see one.

    Args:
        outcome: What was trained on the data, an additive network among it.
        tried: Of how many fusions the surest counts, as in :func:`synib.audit.verdict.answer`.
        seed: Of directions and labels, and of the rest as for :func:`synib.audit.interaction.products`.
    """
    table, (rows,) = outcome.recipe.table, np.nonzero(looked_at(outcome, seed))
    there = {name: np.asarray(present)[rows] for name, present in table.present.items()}
    pairs = [(a, b) for a, b in combinations(there, 2) if (there[a] & there[b]).sum() >= LEAST]
    told, random = averaged(outcome, "additive")[rows], np.random.default_rng(seed)
    draw = _classes if table.classes else _numbers
    found = of = 0
    while pairs and found < ENOUGH and of - found <= TRIES - ENOUGH:
        a, b = pairs[of % len(pairs)]
        side = _side(table, a, rows, random) * _side(table, b, rows, random)
        target = np.array(table.target)
        target[rows] = draw(told, side, target[rows], random)
        one = products(outcome, seed, target)
        found += answer(one.evidence, one.lead, tried) == "present"
        of += 1
    return Planted(found, of)


def _side(table: Table, name: str, rows: NDArray[np.int64], random: np.random.Generator) -> Numbers:
    """1 or -1 for each row, by a random direction of a modality; 0 for those that lack it."""
    there = np.asarray(table.present[name])[rows]
    x = np.asarray(table.modalities[name][rows[there]], dtype=np.float64)
    spread = x.std(0)
    along = x @ (random.normal(size=x.shape[1]) / np.where(spread > 1e-6 * np.abs(x).max(0), spread, np.inf))
    side = np.zeros(len(rows))
    side[there] = np.where(along > np.median(along), 1.0, -1.0)
    return side


def _classes(told: Numbers, side: Numbers, target: Numbers, random: np.random.Generator) -> NDArray[np.int64]:
    """Classes from log-probabilities, which the side moves up for one of the classes and down for another."""
    classes = told.shape[1]
    moved = random.permutation([-1.0, 1.0, *[0.0] * (classes - 2)])
    guess, both = told.argmax(1), side != 0

    def probabilities(far: float) -> Numbers:
        odds = np.exp(told + far * side[:, None] * moved - (told + far).max(1, keepdims=True))
        return np.asarray(odds / odds.sum(1, keepdims=True))

    def worth(far: float) -> float:
        p = probabilities(far)
        return float((p.max(1) - p[np.arange(len(p)), guess])[both].mean())

    p = probabilities(_first(lambda far: worth(far) >= WORTH))
    return np.minimum((p.cumsum(1) < random.random((len(p), 1))).sum(1), classes - 1)


def _numbers(told: Numbers, side: Numbers, target: Numbers, random: np.random.Generator) -> Numbers:
    """Numbers around the means, as far off as the real ones, which the side moves up and down."""
    rest = random.permutation(target - told[:, 0])
    return np.asarray(told[:, 0] + rest + side * np.sqrt(WORTH / (1 - WORTH)) * target.std())


def _first(enough: Callable[[float], bool], most: float = 50.0) -> float:
    """The least number, up to a largest one, that is enough."""
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
