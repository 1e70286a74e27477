"""Confidence intervals, by the bootstrap or from a standard error."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_whole, is_number, shown
from synib.measure.arrays import Array, as_array

CROSS_VALIDATED = 1.25  # variance of a cross-validated mean, relative to that of independent test rows


@dataclass(frozen=True)
class Estimate:
    """A value, its confidence interval at ``level``, and the number of examples; NaN if there are too few."""

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap(
    statistic: Callable[..., Any],
    *data: ArrayLike | Tensor,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    vectorized: bool = True,
    method: Literal["percentile", "basic"] = "percentile",
) -> Estimate:
    """A statistic of examples with its bootstrap confidence interval.

    >>> import numpy as np
    >>> print(bootstrap(np.mean, [0.0, 1.0, 1.0, 1.0] * 50))
    0.750 [0.690, 0.815]

    Args:
        statistic: A function of one or more arrays. If ``vectorized`` it accepts ``axis``, as NumPy's functions do.
        data: One or more arrays with one row per example; rows of several arrays are resampled together.
        level: Confidence level.
        draws: Number of resamples.
        seed: Seed of the resampling.
        vectorized: Whether the statistic accepts ``axis``.
        method: The percentiles of the resamples, or these reflected about the value (``"basic"``), for a biased
            statistic.
    """
    check_resampling(seed, level, draws=draws)
    if not callable(statistic):
        raise ValueError(
            f"statistic must be a function such as np.mean, given before the data; got {type(statistic).__name__}."
        )
    if vectorized and not _takes_axis(statistic):
        raise ValueError("statistic must accept axis, as np.mean does: use vectorized=False for one that does not.")
    from scipy.stats import bootstrap as resample  # slow to import

    arrays = [as_array(x) for x in data]
    if not arrays or not all(x.ndim for x in arrays):
        got = "a single number" if arrays else "none"
        raise ValueError(f"The bootstrap needs at least one array with one row per example; got {got}.")
    n = len(arrays[0])
    if any(len(x) != n for x in arrays):
        raise ValueError(
            f"Arrays that are resampled together need the same number of rows; got {[len(x) for x in arrays]} rows."
        )
    if n == 0:
        return unknown(0, level)
    try:
        value = _single_number(statistic(*arrays, axis=0) if vectorized else statistic(*arrays))
    except TypeError:
        not_numeric = [str(x.dtype) for x in arrays if x.dtype.kind not in "biufc"]
        if not not_numeric:
            raise
        raise ValueError(f"The statistic needs numbers; got {', '.join(not_numeric)}.") from None
    if n == 1:
        return Estimate(value, np.nan, np.nan, 1, level)
    limits = resample(
        arrays, statistic, paired=True, vectorized=vectorized, axis=0, n_resamples=draws, confidence_level=level,
        method=method, rng=np.random.default_rng(seed), batch=max(1, 2_000_000 // n) if vectorized else None,
    ).confidence_interval  # fmt: skip
    return Estimate(value, float(limits.low), float(limits.high), n, level)


def statistics(numbers: Sequence[float]) -> dict[str, float | int | None]:
    """Mean, standard error of the mean, and n; ``None`` if there are too few numbers."""
    try:
        n, total = len(numbers), sum(numbers)
    except TypeError:
        raise ValueError(f"Statistics need a list of numbers; got {shown(numbers)}.") from None
    if n == 0:
        return {"mean": None, "se": None, "n": 0}
    average = total / n
    if n == 1:
        return {"mean": average, "se": None, "n": 1}
    variance = sum((x - average) ** 2 for x in numbers) / (n - 1)
    return {"mean": average, "se": math.sqrt(variance / n), "n": n}


def interval(
    mean: float, se: float, n: int, level: float = 0.95, test_share: float | None = None
) -> tuple[float, float]:
    """The confidence interval of a mean of ``n`` normal numbers (Student's t).

    Args:
        mean, se, n: As returned by :func:`statistics`.
        level: Confidence level.
        test_share: For results of ``n`` train-test splits of the same rows, the fraction of rows in each test set. The
            interval is then wider, because splits share rows (:func:`~synib.measure.stats.corrected_resampled_t`).
    """
    if mean is None or se is None:
        raise ValueError("An interval needs a mean and its standard error, which require at least 2 numbers; got None.")
    from scipy.stats import t as student  # slow to import

    overlap = 0.0 if test_share is None else test_share / (1 - test_share)
    reach = float(student.ppf((1 + level) / 2, n - 1)) * se * math.sqrt(1 + n * overlap)
    return mean - reach, mean + reach


def widen(estimate: Estimate, without: Sequence[float], correction: float = 1.0) -> Estimate:
    """An interval widened by a second, independent source of error, from a jackknife over groups of draws.

    Args:
        estimate: The estimate with the interval of the first source of error.
        without: The value with each group of draws left out in turn.
        correction: Factor of the jackknife's standard error: below 1 for draws from a finite set.
    """
    groups = len(without)
    if groups < 2 or correction == 0.0 or not np.isfinite([*without, estimate.low]).all():
        return estimate
    squares = float(np.sum((np.array(without) - np.mean(without)) ** 2))
    se = correction * math.sqrt((groups - 1) / groups * squares)
    _, reach = interval(0.0, se, groups, estimate.level)
    low = estimate.value - math.hypot(estimate.value - estimate.low, reach)
    high = estimate.value + math.hypot(estimate.high - estimate.value, reach)
    return replace(estimate, low=low, high=high)


def cross_validated(score: Estimate, folds: int) -> Estimate:
    r"""The interval of a model's mean score by k-fold cross-validation, from that for the same number of separate test rows.

    Every two rows of different folds enter twice: each tests a model that the other one trained. The errors of folds are
    therefore correlated, and the variance of their mean is between 1 and 2 times that of independent rows: 1 if all
    training rows give the same model, 2 if predictions rest on nothing but the luck of these rows. No estimate from a
    single partition is unbiased (Bengio & Grandvalet 2004). In simulations with ridge classifiers and with networks
    the ratio is 1 to 1.7; the interval assumes 1.25.

    Args:
        score: The score with its interval, as if all rows had tested one model.
        folds: Number of folds; with one, a single split into training and test rows, nothing changes.
    """
    if folds == 1:
        return score
    reach = math.sqrt(CROSS_VALIDATED)
    low, high = score.value - reach * (score.value - score.low), score.value + reach * (score.high - score.value)
    return replace(score, low=low, high=high)


def check_resampling(seed: int, level: float = 0.95, **counts: int) -> None:
    """Raise ``ValueError`` if the settings of an interval are invalid.

    Args:
        seed: Seed of the resampling.
        level: Confidence level.
        counts: Whole numbers of at least 1, such as the number of resamples, by the caller's names.
    """
    check_whole("seed", seed, least=0)
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level, the confidence level of the interval, must be between 0 and 1; got {shown(level)}.")
    for name, count in counts.items():
        check_whole(name, count)


def unknown(n: int, level: float = 0.95) -> Estimate:
    """The estimate if n examples are too few for one."""
    return Estimate(np.nan, np.nan, np.nan, n, level)


def ratio(part: Array, whole: Array, axis: int) -> Array:
    """A ratio of sums: a statistic for :func:`bootstrap`."""
    return part.sum(axis) / whole.sum(axis)


def _takes_axis(statistic: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(statistic).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature; accept them
        return True
    return any(p.name == "axis" or p.kind is p.VAR_KEYWORD for p in parameters)


def _single_number(value: Any) -> float:
    if np.size(value) != 1:
        raise ValueError(f"A statistic of examples must be a single number; got shape {np.shape(value)}.")
    return float(value)
