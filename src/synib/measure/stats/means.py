"""Confidence intervals of means: over rows, over rows in groups, and of differences by fold."""

import math

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import is_number, shown
from synib.measure.arrays import as_numbers
from synib.measure.stats.clusters import clustered_means
from synib.measure.stats.intervals import Estimate, check_resampling, interval, unknown


def mean(x: ArrayLike | Tensor, groups: ArrayLike | None = None, level: float = 0.95) -> Estimate:
    """The mean over examples, with a confidence interval over examples, or over groups if given.

    *Rows*: Student's t after Hall's (1992) transformation, which removes the skewness of the studentised mean. Gains in
    log-loss are skewed by a few rows that one model predicts badly; with 100 rows a plain t interval lies entirely
    above the truth two to four times as often as its level allows, and this interval about as often as it should.

    *Groups*: the cluster-robust t interval CR2 with Bell and McCaffrey's degrees of freedom, where each end is the farther of
    Student's and of that by Hall's transformation. Its coverage is 93 to 97 % for 4 to 30 groups of equal or unequal size
    with normal or exponential effects. With 2 or 3 groups there are 1 or 2 degrees of freedom, and it is wide
    (at least 12.7 and 4.3 standard errors on each side); with a single group both ends are NaN.

    >>> print(mean([0.1, 0.4, 0.2, 0.3, 0.0, 0.2]))
    0.200 [0.052, 0.348]

    Args:
        x: One number for each example.
        groups: The group of each example, if examples of one group are dependent.
        level: Confidence level.
    """
    check_resampling(0, level)
    values = as_numbers(x, "x")
    if values.ndim != 1:
        raise ValueError(f"A mean needs one number for each example; got shape {values.shape}.")
    if not len(values):
        return unknown(0, level)
    from scipy.stats import t as student  # slow to import

    result = clustered_means(values[None], groups=groups)
    value = float(result.mean[0])
    if result.df == 0:
        return Estimate(value, math.nan, math.nan, len(values), level)
    quantile = float(student.ppf((1 + level) / 2, result.df))
    low, high = result.limits(quantile)
    return Estimate(value, float(low[0]), float(high[0]), len(values), level)


def corrected_resampled_t(differences: ArrayLike | Tensor, test_share: float, level: float = 0.95) -> Estimate:
    r"""The mean difference between two methods over train-test splits of one data set, with its confidence interval.

    Splits share training rows, so their differences are dependent and the plain standard error is too small. The
    variance of the mean of J differences is estimated as

    .. math:: \Big(\frac1J + \frac{n_\mathrm{test}}{n_\mathrm{train}}\Big) s^2,

    with J - 1 degrees of freedom (Nadeau & Bengio, "Inference for the generalization error", 2003); for repeated
    cross-validation J counts all folds of all repeats (Bouckaert & Frank 2004).

    >>> print(corrected_resampled_t([0.02, 0.04, 0.01, 0.03, 0.05], test_share=0.2))
    0.030 [0.001, 0.059]

    Args:
        differences: One for each split, ``(folds,)`` or ``(repeats, folds)``.
        test_share: Fraction of the rows in each test set: 1 / folds for cross-validation.
        level: Confidence level.
    """
    check_resampling(0, level)
    if not is_number(test_share) or not 0 < test_share < 1:
        raise ValueError(
            f"test_share, the fraction of rows in each test set, must be between 0 and 1; got {shown(test_share)}."
        )
    values = as_numbers(differences, "differences").reshape(-1)
    n = len(values)
    if n < 2:
        return Estimate(float(values[0]), math.nan, math.nan, 1, level) if n else unknown(0, level)
    average, se = float(values.mean()), float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(average, *interval(average, se, n, level, test_share), n, level)


def resampled_p_value(mean: float, se: float, n: int, test_share: float | None = None) -> float:
    """The two-sided p-value of a zero mean difference, by the t statistic that :func:`interval` inverts.

    >>> round(resampled_p_value(0.03, 0.00707, 5, test_share=0.2), 3)
    0.047

    Args:
        mean, se, n: As returned by :func:`statistics`.
        test_share: As in :func:`interval`.
    """
    from scipy.stats import t as student  # slow to import

    overlap = 0.0 if test_share is None else test_share / (1 - test_share)
    error = se * math.sqrt(1 + n * overlap)
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * student.sf(abs(mean) / error, n - 1))
