"""Cluster-robust standard errors of means over rows in groups, with a small-sample correction."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib.measure.arrays import Array

Numbers = NDArray[np.float64]
ROUNDING = 1e-12  # of the largest absolute value: a smaller standard error is rounding


class ClusteredMeans(NamedTuple):
    """Means of k quantities over the same rows, with what their sampling distribution needs.

    Args:
        mean: ``(k,)``.
        se: Standard errors (CR2), ``(k,)``; NaN with a single cluster.
        df: Degrees of freedom of these standard errors; 0 with a single cluster.
        skewness: Skewness of the distribution of each mean, ``(k,)``: that of the rows divided by the square root of
            their number. 0 for groups, which are too few to estimate it.
        scores: Leverage-adjusted residual sums of the clusters, ``(k, clusters)``: their squares sum to the variances.
    """

    mean: Numbers
    se: Numbers
    df: float
    skewness: Numbers
    scores: Numbers


def clustered_means(x: Array, weights: Array | None = None, groups: ArrayLike | None = None) -> ClusteredMeans:
    r"""Weighted means of the rows of ``x`` with cluster-robust standard errors.

    With residual sums :math:`e_g` of the clusters, weights :math:`n_g` and :math:`N = \sum_g n_g` the variance is

    .. math:: V = \frac1{N^2} \sum_g \frac{e_g^2}{1 - n_g / N},

    the CR2 estimator of a regression on a constant, which is unbiased for independent rows whatever the sizes of the
    groups (Bell & McCaffrey 2002). Its degrees of freedom follow from Satterthwaite's approximation: the number of
    groups minus one if all have the same size, fewer if a few groups contain most rows. Without groups each row is a
    cluster, and both are those of Student's t.

    Args:
        x: ``(k, rows)``; with weights, sums over the units of a row.
        weights: ``(rows,)``, so that each mean is a ratio of sums; 1 by default.
        groups: The group of each row; by default each row is a separate cluster.
    """
    sizes = np.ones(x.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    sums: Numbers = np.asarray(x, dtype=np.float64)
    by_row = groups is None
    if groups is not None:
        number = numbered(groups, x.shape[1])
        by_row = bool(number.max(initial=-1) + 1 == x.shape[1])
        if not by_row:
            sums = np.stack([np.bincount(number, row) for row in sums])
            sizes = np.bincount(number, sizes).astype(np.float64)
    total = sizes.sum()
    mean = sums.sum(1) / total
    residuals = sums - mean[:, None] * sizes
    if len(sizes) < 2:
        unknown = np.full(len(mean), np.nan)
        return ClusteredMeans(mean, unknown, 0.0, unknown, residuals)
    leverage = sizes / total
    scores = residuals / (np.sqrt(1 - leverage) * total)
    se = np.sqrt(np.square(scores).sum(1))
    largest = np.abs(sums / sizes).max(1)
    se = np.where(se <= ROUNDING * largest, 0.0, se)
    skewness = np.zeros(len(mean))
    if by_row:
        varies = se > 0
        skewness[varies] = (residuals[varies] ** 3).sum(1) / (total * se[varies]) ** 3
    return ClusteredMeans(mean, se, _degrees_of_freedom(sizes), skewness, scores)


def _degrees_of_freedom(sizes: Numbers) -> float:
    r"""Satterthwaite's approximation :math:`(\operatorname{tr} M)^2 / \operatorname{tr} M^2` for independent rows.

    M is the covariance of the scores: :math:`n_g` on its diagonal, and :math:`-\sqrt{v_g v_h} / N` off it, with
    :math:`v_g = n_g^2 / (1 - n_g / N)`.
    """
    total = sizes.sum()
    v = np.square(sizes) / (1 - sizes / total)
    off_diagonal = (v.sum() ** 2 - np.square(v).sum()) / total**2
    return float(total**2 / (np.square(sizes).sum() + off_diagonal))


def numbered(groups: ArrayLike, rows: int) -> NDArray[np.int64]:
    """The index of each row's group, from 0; raises ``ValueError`` unless there is one for each row."""
    names = np.asarray(groups)
    if names.shape != (rows,):
        raise ValueError(f"groups must be the group of each of {rows} examples; got shape {names.shape}.")
    _, number = np.unique(names.astype(str) if names.dtype.kind == "O" else names, return_inverse=True)
    return number


def unskewed(t: ArrayLike, skewness: ArrayLike) -> Numbers:
    r"""A studentised mean of skewed rows, transformed to be nearly normal (Hall 1992).

    .. math:: g(t) = t + \tfrac13 b\, t^2 + \tfrac1{27} b^2 t^3 + \tfrac16 b,

    with b the skewness of the mean. g is monotone, so that an interval follows from its inverse, :func:`reskewed`.
    """
    t, b = np.asarray(t, dtype=np.float64), np.asarray(skewness, dtype=np.float64)
    return np.asarray(t + b / 3 * t**2 + b**2 / 27 * t**3 + b / 6)


def reskewed(y: ArrayLike, skewness: ArrayLike) -> Numbers:
    """The inverse of :func:`unskewed`."""
    y, b = np.asarray(y, dtype=np.float64), np.asarray(skewness, dtype=np.float64)
    third = np.where(np.abs(b) < 1e-9, 1.0, b / 3)
    return np.where(np.abs(b) < 1e-9, y, (np.cbrt(1 + b * (y - b / 6)) - 1) / third)
