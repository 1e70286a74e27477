"""Estimate a decomposition from examples, with intervals and a permutation null, for any estimator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_whole
from synib.measure.arrays import Array, as_numbers, without_column
from synib.measure.pid.decomposition import COMPONENTS, PID, PIDEstimate
from synib.measure.stats import group_numbers, halves, mean, permutations

BIT = float(np.log(2.0))
Pointwise = Mapping[str, Array]


def estimate(
    measured: Callable[[Array, int], Pointwise],
    y: Array,
    parts: Sequence[Array],
    held_out: Array,
    nulls: int,
    seed: int,
    level: float,
    groups: Array | None = None,
) -> PIDEstimate:
    """Run an estimator on the labels and on permuted labels.

    Args:
        measured: Function from labels, and the index of the permutation (0 for the original labels), to every held-out
            example's share of each component, in nats; the mean is the component.
        y: Labels.
        parts: The rows of the two halves. Labels are permuted within each half, so that both keep their classes.
        held_out: The rows of the shares, in order.
        nulls: Number of permutations.
        seed: Seed for the permutations.
        level: Confidence level.
        groups: The group of each row, from 0: labels are then permuted by group, and intervals are over groups.
    """
    shares = measured(y, 0)
    of_groups = None if groups is None else groups[held_out]
    components: dict[str, Any] = {}
    for name in COMPONENTS:
        component = mean(shares[name] / BIT, of_groups, level)
        components[name] = replace(
            component, value=_rounded(component.value), low=_rounded(component.low), high=_rounded(component.high)
        )
    null = []
    for k, permuted in enumerate(permutations(y, parts, nulls, seed, groups)):
        shares = measured(permuted, 1 + k)
        means: dict[str, Any] = {name: _rounded(shares[name].mean() / BIT) for name in COMPONENTS}
        null.append(PID(**means))
    return PIDEstimate(**components, null=tuple(null))


def _rounded(x: float) -> float:
    """Round values that are 0 up to rounding error to 0, so that zeros are equal and none is negative."""
    return round(float(x), 12) + 0.0


def in_halves(y: Array, seed: int, groups: ArrayLike | None) -> tuple[tuple[Array, Array], Array | None]:
    """The rows of two halves that each contain every class, and the index of each row's group."""
    if groups is None:
        return halves(y, seed), None
    number = group_numbers(groups, len(y))
    parts = halves(y, seed, number)
    if any(len(np.unique(y[rows])) <= y.max() for rows in parts):
        raise ValueError(
            "Groups are kept together in one of two halves, and one half has no example of some class: use "
            "groups such that each class occurs in at least two, or leave out groups."
        )
    return parts, number


def checked(
    x1: ArrayLike | Tensor, x2: ArrayLike | Tensor, y: ArrayLike | Tensor, nulls: int, least: int, each: int
) -> tuple[Array, Array, Array, int]:
    """Features as ``(examples, width)``, labels as 0, 1, …, and the number of classes.

    Args:
        x1, x2, y, nulls: The arguments of the caller.
        least: Minimum number of examples.
        each: Minimum number of examples per class.
    """
    check_whole("nulls", nulls, least=0)
    features = [as_numbers(x1, "x1"), as_numbers(x2, "x2")]
    labels = without_column(y, "y")
    if labels.ndim != 1:
        raise ValueError(f"Labels must be one class for each example; got an array of shape {labels.shape}.")
    missing = sum(map(_missing, labels.tolist()))
    if missing:
        what = "NaN" if labels.dtype.kind == "f" else "None or NaN"
        raise ValueError(f"Labels contain {missing} {what}: drop those examples.")
    n = len(labels)
    for name, x in zip(("x1", "x2"), features, strict=True):
        if x.ndim == 0 or len(x) != n:
            raise ValueError(f"{name} needs one row for each of the {n} labels; got an array of shape {x.shape}.")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} contains NaN or infinite values: drop those examples or impute them.")
    if n < least:
        raise ValueError(f"These settings need at least {least} examples; got {n}.")
    try:
        classes, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError:
        raise ValueError("Labels must be all numbers or all strings; got both.") from None
    if len(classes) < 2:
        raise ValueError(f"All {n} labels are {classes.tolist()[0]!r}, so there is no information to decompose.")
    if len(classes) > n // 4:
        raise ValueError(
            f"Labels must be classes with several examples each; got {len(classes)} values in {n} examples."
        )
    if counts.min() < each:
        raise ValueError(
            f"Class {classes.tolist()[counts.argmin()]!r} has {counts.min()} examples, but at least {each} of "
            "each class are needed: leave its examples out or merge it with another class."
        )
    return features[0].reshape(n, -1), features[1].reshape(n, -1), labels, len(classes)


def _missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # only NaN differs from itself
    except TypeError:  # the NA of pandas is neither equal nor different
        return True
