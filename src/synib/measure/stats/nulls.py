"""Null distributions by permutation of labels."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from synib.measure.arrays import Array


def permutations(
    labels: Array, parts: Sequence[Array], count: int, seed: int, groups: Array | None = None
) -> Iterator[Array]:
    """The labels, randomly permuted within each part, a number of times.

    Rows of one group are dependent, and permuting their labels one by one would make them independent: the null would
    be too narrow. Permutations by group preserve the dependence within groups:

    - If every group has one label, the labels of whole groups are permuted. This is a valid null if groups are
      exchangeable: a group's label is independent of its features.
    - Otherwise labels are permuted within their group, and the labels of a whole group are exchanged with those of
      another group of the same size. This is valid if rows of one group are also exchangeable. Groups of unique size
      are only permuted within, so a difference between such groups is part of the null and not counted as evidence.

    Args:
        labels: One for each example.
        parts: The rows of each part. Without groups, or with labels that vary within groups, each part keeps its
            classes.
        count: Number of permutations.
        seed: Seed of the permutations.
        groups: The group of each example, as an integer from 0. No group is in two parts.
    """
    rng = np.random.default_rng([seed, 1])
    if groups is None:
        draw = [_of_rows] * len(parts)
        sorted_parts = [(rows, np.empty(0, dtype=np.int64)) for rows in parts]
    else:
        sorted_parts = [_by_group(rows, groups) for rows in parts]
        draw = [_of_whole_groups if _one_label_each(labels, parts, groups) else _of_blocks] * len(parts)
    for _ in range(count):
        permuted = labels.copy()
        for permute, (rows, starts) in zip(draw, sorted_parts, strict=True):
            permuted[rows] = permute(labels[rows], starts, rng)
        yield permuted


def _by_group(rows: Array, groups: Array) -> tuple[Array, Array]:
    """Rows in the order of their groups, and the boundaries between groups."""
    rows = rows[np.argsort(groups[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(groups[rows], prepend=-1, append=-1))
    return rows, starts


def _one_label_each(labels: Array, parts: Sequence[Array], groups: Array) -> bool:
    rows = np.concatenate([np.asarray(part) for part in parts])
    pairs = np.unique(np.stack([groups[rows], np.unique(labels[rows], return_inverse=True)[1]]), axis=1)
    return bool(pairs.shape[1] == len(np.unique(pairs[0])))


def _of_rows(labels: Array, starts: Array, rng: np.random.Generator) -> Array:
    return rng.permutation(labels)


def _of_whole_groups(labels: Array, starts: Array, rng: np.random.Generator) -> Array:
    return np.repeat(rng.permutation(labels[starts[:-1]]), np.diff(starts))


def _of_blocks(labels: Array, starts: Array, rng: np.random.Generator) -> Array:
    permuted, sizes = np.empty_like(labels), np.diff(starts)
    for size in np.unique(sizes):
        at = starts[:-1][sizes == size][:, None] + np.arange(size)
        permuted[at] = rng.permuted(rng.permutation(labels[at]), axis=1)
    return permuted


def p_value(value: float, null: ArrayLike) -> float:
    """The permutation p-value: the fraction of null values at least as large, including the value itself; NaN if any
    value is.
    """
    draws = np.asarray(null)
    if np.isnan(value) or np.isnan(draws).any():
        return float("nan")
    return float(1 + (draws >= value).sum()) / (1 + len(draws))
