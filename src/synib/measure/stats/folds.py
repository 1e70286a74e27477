"""Cross-validation folds, stratified by class and with groups kept together."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib import keys
from synib.checks import is_whole, shown
from synib.measure.stats.clusters import numbered

Rows = NDArray[np.int64]


def assign(rows: int, folds: int, seed: int, strata: Rows | None = None, groups: Rows | None = None) -> Rows:
    """The fold of each row, from 0 to ``folds`` - 1.

    Without groups, every stratum is distributed evenly, up to one row. Groups stay together: from the largest to the
    smallest, each is assigned to the fold where it adds least to the sum of squared shares of strata and of rows.

    Args:
        rows: Number of rows.
        folds: Number of folds.
        seed: Seed of the random order of rows or groups.
        strata: The class of each row, as an integer; ``None`` for one class.
        groups: The group of each row, as an integer from 0.
    """
    key = keys.fold(keys.key(seed), "folds")
    if groups is None:
        return deal(keys.permutation(key, rows).numpy(), folds, strata)
    sizes = np.bincount(groups).astype(np.float64)
    weights = sizes[:, None]
    if strata is not None:
        weights = np.zeros((len(sizes), int(strata.max(initial=0)) + 2))
        np.add.at(weights, (groups, strata), 1.0)
        weights[:, -1] = sizes  # folds should be even in their number of rows, too
        weights /= np.maximum(weights.sum(0), 1.0)
    order = keys.permutation(key, len(sizes)).numpy()
    return assign_groups(weights, order[np.argsort(-sizes[order], kind="stable")], folds)[groups]


def deal(order: Rows, folds: int, strata: Rows | None = None) -> Rows:
    """The fold of each row, assigned in this order, one stratum after the other."""
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold


def assign_groups(weights: NDArray[np.float64], order: Rows, folds: int) -> Rows:
    """The fold of each group: in this order, each is assigned where it adds least to the sum of the folds' squared weights.

    Args:
        weights: The number of rows of each group, ``(groups, 1)``, or its shares of several strata, ``(groups, strata)``.
        order: The order of assignment; starting with large groups gives even folds.
        folds: Number of folds.
    """
    fold, totals = np.zeros(len(weights), dtype=np.int64), np.zeros((folds, weights.shape[1]))
    for group in order:
        fold[group] = np.argmin(totals @ weights[group])  # an empty fold costs nothing, so none stays empty
        totals[fold[group]] += weights[group]
    return fold


def halves(labels: Rows, seed: int, groups: Rows | None = None) -> tuple[Rows, Rows]:
    """Rows in two random halves, stratified by class as far as groups allow.

    Args:
        labels: The class of each row, as an integer from 0.
        seed: Seed of the random order.
        groups: The group of each row, as an integer from 0; groups stay together.
    """
    if groups is not None:
        part = assign(len(labels), 2, seed, labels, groups)
        return np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    order = np.random.default_rng([seed, 0]).permutation(len(labels))
    first = np.zeros(len(labels), dtype=bool)
    odd = 0
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        first[rows[: (len(rows) + 1 - odd) // 2]] = True
        odd = (odd + len(rows)) % 2  # the extra row goes to the first part, then to the second
    # Only rows on the wrong side are moved, so that the split is as close as possible to one that ignores classes.
    half = (len(labels) + 1) // 2
    out, back = np.flatnonzero(~first[order[:half]]), half + np.flatnonzero(first[order[half:]])
    order[out], order[back] = order[back], order[out]
    return order[:half], order[half:]


def check_folds(rows: int, folds: int, least: int = 2) -> None:
    """Raise ``ValueError`` if the rows cannot be split into this number of folds of at least two."""
    half = rows // 2
    if half < least:
        raise ValueError(f"{('Two', 'Three')[least - 2]} folds need at least {2 * least} examples; got {rows}.")
    if not is_whole(folds) or not least <= folds <= half:
        raise ValueError(
            f"folds must be a whole number between {least} and half the number of examples, {half}; got {shown(folds)}."
        )


def group_numbers(groups: ArrayLike, rows: int, least: int = 2) -> Rows:
    """The index of each row's group, from 0; raises ``ValueError`` if there are too few groups."""
    number = numbered(np.asarray(groups).astype(str), rows)
    count = int(number.max(initial=-1)) + 1
    if count < least:
        raise ValueError(f"Holding out whole groups needs at least {least} of them; got {count}.")
    return number
