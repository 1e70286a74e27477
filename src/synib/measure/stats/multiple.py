"""Multiple comparisons: simultaneous intervals for the best of k, and Holm's adjusted p-values."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, as_numbers
from synib.measure.stats.clusters import Numbers, clustered_means
from synib.measure.stats.intervals import Estimate, check_resampling

SMALLEST, STEPS = 1e-8, 24  # smallest p-value of the search, and its steps
MANY = 60  # groups, or degrees of freedom, from which on studentised means are treated as jointly normal


@dataclass(frozen=True)
class Simultaneous:
    """The result of :func:`simultaneous`.

    Attributes:
        estimates: The mean gain of each candidate; all intervals hold simultaneously at the level.
        statistic: The studentised mean gain of each candidate, corrected for skewness (``(k,)``).
        p_values: Adjusted p-value of each candidate, against a mean gain of at most 0 (``(k,)``).
        critical: The absolute value of the statistic above which an interval excludes 0.
        level_each: The confidence level of each single interval, by which all hold simultaneously.
    """

    estimates: list[Estimate]
    statistic: Array
    p_values: Array
    critical: float
    level_each: float

    @property
    def best(self) -> int:
        """The candidate with the largest statistic."""
        return int(np.nanargmax(self.statistic)) if np.isfinite(self.critical) else 0


def simultaneous(
    gains: ArrayLike | Tensor,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Simultaneous:
    r"""Simultaneous confidence intervals and p-values of several candidates' gains, so that the best may be reported.

    A single-step max-t procedure. Each candidate's mean is studentised as in :func:`~synib.measure.stats.mean`. The
    largest of k studentised means of correlated candidates is less extreme than that of independent ones, so the
    critical value is smaller than Bonferroni's. It is the quantile of the maximum of simulated means with the
    correlation of these candidates: normal draws, studentised by as many draws as there are groups, or plain normal
    draws if there are many rows. No row is resampled. Correlations are poorly estimated from few groups and are
    therefore shrunk towards 0 by 1 / groups, where the procedure approaches Bonferroni's.

    Args:
        gains: ``(k, rows)``, the gain of each candidate over a common baseline at each row.
        groups: The group of each row, if rows of one group are dependent. With one group all results are NaN.
        level: Simultaneous confidence level of all intervals.
        draws: Number of simulated maxima.
        seed: Seed of the simulation.
    """
    check_resampling(seed, level, draws=draws)
    values = as_numbers(gains, "gains")
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"gains must be numbers of shape (candidates, rows), with at least one of each; got shape {values.shape}."
        )
    from scipy.stats import t as student  # slow to import

    k, n = values.shape
    result = clustered_means(values, groups=groups)
    if result.df == 0:
        estimates = [Estimate(float(m), np.nan, np.nan, n, level) for m in result.mean]
        return Simultaneous(estimates, np.full(k, np.nan), np.full(k, np.nan), np.nan, np.nan)
    varies = result.se > 0
    statistic = result.statistic()
    alone = student.sf(statistic, result.df)
    compared = int(varies.sum())
    if compared < 2:
        critical, p_values = float(student.ppf((1 + level) / 2, result.df)), alone
    else:
        simulated, df = _simulated(_correlation(result.scores[varies]), result.df, draws, seed)
        # The level of a single comparison that gives the required simultaneous level.
        extreme = np.quantile(np.abs(simulated).max(1), level)
        critical = float(student.isf(student.sf(extreme, df), result.df))
        largest = np.sort(simulated.max(1))
        thresholds = student.isf(alone, df)
        exceeded = (1 + draws - np.searchsorted(largest, thresholds)) / (1 + draws)
        p_values = np.clip(exceeded, alone, np.minimum(compared * alone, 1.0))  # between one comparison and Bonferroni
    low, high = result.limits(critical)
    estimates = [
        Estimate(float(m), float(a), float(b), n, level) for m, a, b in zip(result.mean, low, high, strict=True)
    ]
    level_each = 1 - 2 * float(student.sf(critical, result.df))
    return Simultaneous(estimates, statistic, p_values, critical, level_each)


def holm(p_values: ArrayLike) -> Array:
    """Holm's adjusted p-values of several claims (1979): rejecting those at most α controls the family-wise error rate at α.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])

    Args:
        p_values: One for each claim; NaN for a claim that could not be tested, which is ignored.
    """
    p = as_numbers(p_values, "p_values")
    tested = ~np.isnan(p)
    if p.ndim != 1 or (p[tested] < 0).any() or (p[tested] > 1).any():
        raise ValueError(f"p_values must be numbers between 0 and 1, one for each claim; got {np.asarray(p_values)!r}.")
    order = np.argsort(p[tested], kind="stable")
    stepwise = p[tested][order] * np.arange(len(order), 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[np.flatnonzero(tested)[order]] = np.minimum(np.maximum.accumulate(stepwise), 1.0)
    return adjusted


def inverted_p_value(interval: Callable[[float], Estimate], value: float = 0.0) -> float:
    """The two-sided p-value of the hypothesis that a quantity has this value, from its intervals at all levels.

    It is 1 minus the highest level at which the interval excludes the value, so that p-value and interval always agree.

    >>> from synib.measure.stats import mean
    >>> round(inverted_p_value(lambda level: mean([0.1, 0.4, 0.2, 0.3, 0.0, 0.2], level=level)), 4)
    0.018

    Args:
        interval: Confidence level → the estimate with its interval at that level.
        value: The hypothetical value.
    """

    def excluded(p: float) -> bool:
        one = interval(1 - p)
        return one.low > value or one.high < value  # false if the ends are NaN

    low, high = math.log(SMALLEST), 0.0
    if excluded(SMALLEST):
        return SMALLEST
    if not excluded(0.999):
        return 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if excluded(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _correlation(scores: Numbers) -> Numbers:
    """The correlation of the candidates' means; for few clusters shrunk towards 0 by one over their number."""
    unit = scores / np.sqrt(np.square(scores).sum(1))[:, None]
    share = 1 / scores.shape[1] if scores.shape[1] <= MANY else 0.0
    return np.asarray((1 - share) * (unit @ unit.T) + share * np.eye(len(unit)))


def _simulated(correlation: Numbers, df: float, draws: int, seed: int) -> tuple[Numbers, float]:
    """Simulated studentised means with this correlation under the null, ``(draws, k)``, and their degrees of freedom."""
    sizes, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(sizes, 0.0))).T
    rng = np.random.default_rng(seed)
    if df > MANY:
        return rng.normal(size=(draws, len(root))) @ root, np.inf
    clusters = max(2, round(df) + 1)
    z = rng.normal(size=(draws, clusters, len(root))) @ root
    return z.mean(1) / (z.std(1, ddof=1) / np.sqrt(clusters)), clusters - 1
