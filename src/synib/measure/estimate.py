"""A number with its interval."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[Any]


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
) -> Estimate:
    """A statistic of examples, with the interval that resampling them gives (percentiles).

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
    """
    from scipy.stats import bootstrap as resample  # slow to import

    arrays = [as_array(x) for x in data]
    n = len(arrays[0])
    if any(len(x) != n for x in arrays):
        raise ValueError(
            f"Arrays that are resampled together need a row for each example; got {[len(x) for x in arrays]} rows."
        )
    if n == 0:
        return Estimate(np.nan, np.nan, np.nan, 0, level)
    value = float(statistic(*arrays, axis=0) if vectorized else statistic(*arrays))
    if n == 1:
        return Estimate(value, np.nan, np.nan, 1, level)
    found = resample(
        arrays, statistic, paired=True, vectorized=vectorized, axis=0, n_resamples=draws, confidence_level=level,
        method="percentile", rng=np.random.default_rng(seed), batch=max(1, 2_000_000 // n) if vectorized else None,
    ).confidence_interval  # fmt: skip
    return Estimate(value, float(found.low), float(found.high), n, level)


def as_array(x: ArrayLike | Tensor) -> Array:
    """A tensor, on whatever device, or anything like an array, as an array."""
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
