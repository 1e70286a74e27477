"""Cluster-robust standard errors of means over rows in groups, with a small-sample correction."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib.measure.arrays import Array

Numbers = NDArray[np.float64]
ROUNDING = 1e-12  # of the largest absolute value: a smaller standard error is rounding


class ClusteredMeans(NamedTuple):
    """Means of k quantities over the same rows, with the parameters of their sampling distribution.

    Args:
        mean: ``(k,)``.
        se: Standard errors (CR2), ``(k,)``; NaN with a single cluster.
        df: Degrees of freedom of these standard errors; 0 with a single cluster.
        skewness: Skewness of the distribution of each mean, ``(k,)``: that of the clusters divided by the square root of
            their number, for groups with the small-sample correction of Joanes and Gill (1998).
        scores: Leverage-adjusted residual sums of the clusters, ``(k, clusters)``: their squares sum to the variances.
        grouped: Whether clusters are groups of rows.
    """

    mean: Numbers
    se: Numbers
    df: float
    skewness: Numbers
    scores: Numbers
    grouped: bool

    def limits(self, quantile: float) -> tuple[Numbers, Numbers]:
        r"""Both ends of the interval of each mean, for a quantile of Student's t.

        *Rows*: by Hall's transformation. *Groups*: each end is the farther of this interval's and Student's. Few groups
        whose effects are skewed need the first (Student's covers .82 to .90 for 4 to 10 groups with exponential or
        :math:`\chi^2_1` effects); the skewness of few groups is itself uncertain, and under heavy symmetric tails the
        transformation alone covers .93.
        """
        low, high = (self.mean - self.se * reskewed(sign * quantile, self.skewness) for sign in (1, -1))
        if not self.grouped:
            return low, high
        return np.minimum(low, self.mean - quantile * self.se), np.maximum(high, self.mean + quantile * self.se)

    def statistic(self) -> Numbers:
        """Studentised means, whose quantile is exceeded where the lower limit is above 0; infinite without variance."""
        t = np.where(self.mean == 0, 0.0, np.copysign(np.inf, self.mean))
        varies = self.se > 0
        t[varies] = self.mean[varies] / self.se[varies]
        statistic = t.copy()
        statistic[varies] = unskewed(t[varies], self.skewness[varies])
        return np.minimum(statistic, t) if self.grouped else statistic


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
        return ClusteredMeans(mean, unknown, 0.0, unknown, residuals, grouped=not by_row)
    leverage = sizes / total
    scores = residuals / (np.sqrt(1 - leverage) * total)
    se = np.sqrt(np.square(scores).sum(1))
    largest = np.abs(sums / sizes).max(1)
    se = np.where(se <= ROUNDING * largest, 0.0, se)
    df = _degrees_of_freedom(sizes)
    skewness, varies = np.zeros(len(mean)), se > 0
    skewness[varies] = (residuals[varies] ** 3).sum(1) / (total * se[varies]) ** 3
    if not by_row:
        count = df + 1  # number of groups, or the equivalent number of equal size
        skewness *= count**2 / ((count - 1) * max(count - 2, 1.0))
    return ClusteredMeans(mean, se, df, skewness, scores, grouped=not by_row)


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
