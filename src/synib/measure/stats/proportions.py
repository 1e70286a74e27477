"""Confidence intervals of proportions and of paired differences of proportions, by score tests."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, as_array
from synib.measure.stats.clusters import clustered_means, numbered
from synib.measure.stats.intervals import Estimate, check_resampling, unknown


def proportion(
    hits: ArrayLike | Tensor,
    members: ArrayLike | Tensor | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    r"""The proportion of hits among members, with Wilson's score interval.

    Wilson's interval contains the proportions that a score test does not reject; it stays within [0, 1], has a mean
    coverage close to its level from about 10 examples on, and never degenerates to a point (Brown, Cai & DasGupta
    2001). The exact (Clopper-Pearson) interval never covers less than its level, but usually much more.

    Means over repeats, and hits in groups, are included through their effective sample size: the number of independent
    examples with the same variance, :math:`\hat p (1 - \hat p) / \hat V` (Korn & Graubard 1998), with a t quantile
    instead of the normal one. *Repeats*: the variance is over examples, each with all its repeats, plus one
    pseudo-example that is always hit and one that never is, so that few examples with equal means do not seem certain;
    identical repeats change nothing. *Groups*: the variance is the cluster-robust one of
    :func:`~synib.measure.stats.mean`; the interval is never narrower than that of as many independent examples, nor, if
    all hits agree, than that of as many examples as there are groups. With one group both ends are NaN.

    >>> print(proportion([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]))
    1.000 [0.758, 1.000]

    Args:
        hits: 0 or 1, or means of such values, ``(examples,)`` or ``(examples, repeats)``; repeats of an example stay
            together.
        members: Which examples to include; all by default.
        groups: The group of each example, if examples of one group are dependent.
        level: Confidence level.
    """
    check_resampling(0, level)
    counted = _counted(as_array(hits).astype(float), members, groups, lowest=0)
    n = len(counted.weight)
    if not n:
        return unknown(0, level)
    p = float(counted.plus.sum() / counted.weight.sum())
    size, quantile = _effective_size(counted, level)
    shrink = 1 + quantile**2 / size
    centre = (p + quantile**2 / (2 * size)) / shrink
    reach = quantile / shrink * math.sqrt(p * (1 - p) / size + (quantile / (2 * size)) ** 2)
    low, high = min(p, max(0.0, centre - reach)), max(p, min(1.0, centre + reach))
    return Estimate(p, low, high, n, level) if size == size else Estimate(p, math.nan, math.nan, n, level)


def difference(
    hits: ArrayLike | Tensor,
    other: ArrayLike | Tensor,
    members: ArrayLike | Tensor | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    r"""The proportion of hits minus that of ``other``, paired by example, with Tango's score interval.

    It contains the differences that the score test for paired proportions does not reject (Tango 1998). If no pair
    differs, it is not a point but :math:`\pm z^2 / (n + z^2)`, since differing pairs may not have been observed.
    Repeats and groups are included through their effective sample size, as in :func:`proportion`.

    >>> print(difference([1] * 20, [1] * 20))
    0.000 [-0.161, 0.161]

    Args:
        hits, other: 0 or 1, or means of such values, ``(examples,)`` or ``(examples, repeats)``.
        members: Which examples to include; all by default.
        groups: The group of each example, if examples of one group are dependent.
        level: Confidence level.
    """
    check_resampling(0, level)
    values, other_values = np.broadcast_arrays(as_array(hits).astype(float), as_array(other).astype(float))
    counted = _counted(values - other_values, members, groups, lowest=-1)
    n = len(counted.weight)
    if not n:
        return unknown(0, level)
    total = counted.weight.sum()
    plus, minus = float(counted.plus.sum() / total), float(counted.minus.sum() / total)
    size, quantile = _effective_size(counted, level)
    if size != size:
        return Estimate(plus - minus, math.nan, math.nan, n, level)
    low = -_tango_limit(minus * size, plus * size, size, quantile)
    return Estimate(plus - minus, low, _tango_limit(plus * size, minus * size, size, quantile), n, level)


class _Counted(NamedTuple):
    """For each included example: sums of positive and negative parts over its repeats, their number, and its group.

    ``lowest`` is the smallest possible outcome: 0, or -1 for a difference.
    """

    plus: Array
    minus: Array
    weight: Array
    group: Array | None
    lowest: int


def _counted(x: Array, members: ArrayLike | Tensor | None, groups: ArrayLike | None, lowest: int) -> _Counted:
    x, counts = np.broadcast_arrays(x, np.ones(x.shape, dtype=bool) if members is None else as_array(members))
    if x.ndim == 0:
        raise ValueError("A proportion needs one or more numbers for each example; got a single number.")
    inside = x[counts.astype(bool)]
    if not (inside.min(initial=0.0) >= lowest and inside.max(initial=0.0) <= 1):
        kind = (
            "differences of hits must be between -1 and 1" if lowest else "hits must be 0 or 1, or means of such values"
        )
        raise ValueError(f"{kind.capitalize()}; got values from {inside.min():.4g} to {inside.max():.4g}.")
    repeats = tuple(range(1, x.ndim))
    weight = counts.sum(repeats).astype(float)
    plus, minus = (np.where(counts, np.maximum(sign * x, 0.0), 0.0).sum(repeats) for sign in (1, -1))
    kept = weight > 0
    group = None if groups is None else numbered(groups, len(x))[kept]
    return _Counted(plus[kept], minus[kept], weight[kept], group, lowest)


def _effective_size(counted: _Counted, level: float) -> tuple[float, float]:
    """The effective number of independent hits with the same variance, and the quantile to use with it."""
    from scipy.stats import norm  # slow to import
    from scipy.stats import t as student

    plus, minus, weight, group, lowest = counted
    n, z = len(weight), float(norm.ppf((1 + level) / 2))
    if group is not None and len(np.unique(group)) < n:
        spread = clustered_means((plus - minus)[None], weight, group)
        if spread.df == 0:
            return math.nan, math.nan
        quantile = float(student.ppf((1 + level) / 2, spread.df))
        variance, single = float(spread.se[0]) ** 2, _single_variance(plus, minus, weight)
        most = (n if single > 0 else len(np.unique(group))) * (
            quantile / z
        ) ** 2  # no narrower than for this number of single hits
        return most if variance == 0 else min(most, single / variance), quantile
    whole = ((plus == 0) | (plus == weight)) & ((minus == 0) | (minus == weight))  # all repeats of an example agree
    if whole.all() and (np.ptp(weight) == 0 or np.ptp((plus - minus) / weight) == 0):
        return float(n), z
    one_more = weight.mean()
    plus, minus = np.append(plus, [one_more, 0.0]), np.append(minus, [0.0, -lowest * one_more])
    weight = np.append(weight, [one_more, one_more])
    centre = (plus - minus).sum() / weight.sum()
    variance = float(np.square(plus - minus - centre * weight).sum() / weight.sum() ** 2)
    size = max(1.0, _single_variance(plus, minus, weight) / variance - 2)
    return size, float(student.ppf((1 + level) / 2, max(n - 1, 1)))


def _single_variance(plus: Array, minus: Array, weight: Array) -> float:
    """The variance of a single outcome of -1, 0 or 1 with these rates."""
    up, down = plus.sum() / weight.sum(), minus.sum() / weight.sum()
    return float(max(up + down - (up - down) ** 2, 0.0))


def _tango_limit(plus: float, minus: float, n: float, quantile: float) -> float:
    """The largest difference that Tango's test does not reject, for ``plus`` and ``minus`` discordant among n pairs."""

    def rejected(delta: float) -> bool:
        b = (2 * n - plus + minus) * delta - plus - minus
        rate = (math.sqrt(max(b * b + 8 * n * minus * delta * (1 - delta), 0.0)) - b) / (4 * n)
        variance = n * (2 * rate + delta * (1 - delta))
        return plus - minus - n * delta < -quantile * math.sqrt(max(variance, 0.0))

    low, high = (plus - minus) / n, 1.0
    if not rejected(high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return (low + high) / 2
