"""Null distributions: what a procedure finds where there is nothing to find."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from synib.measure.arrays import Array


def permutations(labels: Array, parts: Sequence[Array], count: int, seed: int) -> Iterator[Array]:
    """The labels, permuted at random within each part, so many times.

    Args:
        labels: One for each example.
        parts: The rows of each part. Each keeps its classes.
        count: Number of permutations.
        seed: Seed of the permutations.
    """
    rng = np.random.default_rng([seed, 1])
    for _ in range(count):
        permuted = labels.copy()
        for rows in parts:
            permuted[rows] = rng.permutation(labels[rows])
        yield permuted


def p_value(value: float, null: ArrayLike) -> float:
    """The share of null values at least as large, counting the value itself among them; NaN where one of them is."""
    draws = np.asarray(null)
    if np.isnan(value) or np.isnan(draws).any():
        return float("nan")
    return float(1 + (draws >= value).sum()) / (1 + len(draws))
