"""A number with its interval."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_whole, is_number, shown
from synib.measure.arrays import Array, as_array


@dataclass(frozen=True)
class Estimate:
    """A value, where the truth lies with confidence ``level``, and from how many examples this was told.

    What so few examples cannot tell is NaN.
    """

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
    """A statistic of examples, with the interval that resampling them gives.

    >>> import numpy as np
    >>> print(bootstrap(np.mean, [0.0, 1.0, 1.0, 1.0] * 50))
    0.750 [0.690, 0.815]

    Args:
        statistic: Of one or more arrays. If ``vectorized`` it takes ``axis``, as numpy's functions do.
        data: One or more arrays with a row for each example; rows of several belong together.
        level: Of confidence.
        draws: How many resamples.
        seed: Of the resampling.
        vectorized: Whether the statistic takes ``axis``.
        method: The resamples' percentiles, or these mirrored at the value (``"basic"``), for a statistic that is biased.
    """
    check_resampling(seed, level, draws=draws)
    if not callable(statistic):
        raise ValueError(f"statistic is a function such as np.mean, before the data; got {type(statistic).__name__}.")
    if vectorized and not _takes_axis(statistic):
        raise ValueError("statistic takes axis, as np.mean does; give vectorized=False for one that does not.")
    from scipy.stats import bootstrap as resample  # slow to import

    arrays = [as_array(x) for x in data]
    if not arrays or not all(x.ndim for x in arrays):
        got = "a single number" if arrays else "none"
        raise ValueError(f"What is resampled is at least one array with a row for each example; got {got}.")
    n = len(arrays[0])
    if any(len(x) != n for x in arrays):
        raise ValueError(
            f"Arrays that are resampled together need a row for each example; got {[len(x) for x in arrays]} rows."
        )
    if n == 0:
        return unknown(0, level)
    try:
        value = _number(statistic(*arrays, axis=0) if vectorized else statistic(*arrays))
    except TypeError:
        strange = [str(x.dtype) for x in arrays if x.dtype.kind not in "biufc"]
        if not strange:
            raise
        raise ValueError(f"The statistic takes numbers; got {', '.join(strange)}.") from None
    if n == 1:
        return Estimate(value, np.nan, np.nan, 1, level)
    found = resample(
        arrays, statistic, paired=True, vectorized=vectorized, axis=0, n_resamples=draws, confidence_level=level,
        method=method, rng=np.random.default_rng(seed), batch=max(1, 2_000_000 // n) if vectorized else None,
    ).confidence_interval  # fmt: skip
    return Estimate(value, float(found.low), float(found.high), n, level)


def check_resampling(seed: int, level: float = 0.95, **counts: int) -> None:
    """Raise ``ValueError`` where what decides an interval is not in order.

    Args:
        seed: Of the resampling.
        level: Of confidence.
        counts: Whole numbers of at least 1, such as that of the resamples, by the names that a caller gave them.
    """
    check_whole("seed", seed, least=0)
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level, the confidence of the interval, lies between 0 and 1; got {shown(level)}.")
    for name, count in counts.items():
        check_whole(name, count)


def proportion(
    hits: ArrayLike | Tensor,
    members: ArrayLike | Tensor | None = None,
    *,
    lowest: float = 0.0,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Estimate:
    r"""The share of hits among members, with an interval that resamples examples.

    Where all examples say the same, resampling sees no spread. No other outcome in n examples can still be an outcome of
    rate :math:`1 - (\alpha / 2)^{1/n}` (the exact binomial edge); the interval allows for so many at either end of [0, 1].

    >>> print(proportion([1, 1, 1, 1, 1, 1, 1, 1, 1, 1]))
    1.000 [0.692, 1.000]

    Args:
        hits: 0 or 1, or a mean of such, ``(examples,)`` or ``(examples, repeats)``; repeats of an example stay together.
        members: Which of them count; all by default.
        lowest: What a hit can be at least; see :func:`difference`.
        level: Of confidence.
        draws: How many resamples.
        seed: Of the resampling.
    """
    x = as_array(hits)
    x, there = np.broadcast_arrays(x, np.ones_like(x, dtype=bool) if members is None else as_array(members))
    repeats = tuple(range(1, x.ndim))
    inside, weight = np.where(there, x, 0.0).sum(repeats), there.sum(repeats)
    inside, weight = inside[weight > 0], weight[weight > 0]
    found = bootstrap(ratio, inside, weight, level=level, draws=draws, seed=seed)
    if not found.n or np.ptp(inside / weight):
        return found
    reach = 1 - ((1 - level) / 2) ** (1 / found.n)
    low, high = found.value - reach * (found.value - lowest), found.value + reach * (1 - found.value)
    return Estimate(found.value, low, high, found.n, level)


def difference(
    hits: ArrayLike | Tensor,
    other: ArrayLike | Tensor,
    members: ArrayLike | Tensor | None = None,
    *,
    draws: int = 2000,
    seed: int = 0,
) -> Estimate:
    """The share of hits minus that of ``other``, paired by example; see :func:`proportion`.

    Where all differences are equal the interval allows for unseen ones, of the same rate, at either end of [-1, 1].
    """
    return proportion(as_array(hits).astype(float) - as_array(other), members, lowest=-1.0, draws=draws, seed=seed)


def statistics(numbers: Sequence[float]) -> dict[str, float | int | None]:
    """Mean, standard error of the mean, and n; what cannot be had from so few numbers is ``None``."""
    try:
        n, total = len(numbers), sum(numbers)
    except TypeError:
        raise ValueError(f"Statistics are those of a list of numbers; got {shown(numbers)}.") from None
    if n == 0:
        return {"mean": None, "se": None, "n": 0}
    mean = total / n
    if n == 1:
        return {"mean": mean, "se": None, "n": 1}
    variance = sum((x - mean) ** 2 for x in numbers) / (n - 1)
    return {"mean": mean, "se": math.sqrt(variance / n), "n": n}


def interval(mean: float, se: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Where the true mean lies with this confidence, if the ``n`` numbers are normal (Student's t)."""
    if mean is None or se is None:
        raise ValueError(
            "An interval needs a mean and its standard error, which only 2 numbers or more have; got None."
        )
    from scipy.stats import t as student  # slow to import

    reach = float(student.ppf((1 + level) / 2, n - 1)) * se
    return mean - reach, mean + reach


def unknown(n: int, level: float = 0.95) -> Estimate:
    """What n examples cannot tell."""
    return Estimate(np.nan, np.nan, np.nan, n, level)


def ratio(part: Array, whole: Array, axis: int) -> Array:
    """A sum over another: a statistic for :func:`bootstrap`."""
    return part.sum(axis) / whole.sum(axis)


def _takes_axis(statistic: Callable[..., Any]) -> bool:
    try:
        taken = inspect.signature(statistic).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature: they may
        return True
    return any(p.name == "axis" or p.kind is p.VAR_KEYWORD for p in taken)


def _number(said: Any) -> float:
    if np.size(said) != 1:
        raise ValueError(f"A statistic of examples is one number; got shape {np.shape(said)}.")
    return float(said)
