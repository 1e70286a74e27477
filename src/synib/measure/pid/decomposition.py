"""A decomposition of information, exact or estimated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.estimate import Array, Estimate, as_array, bootstrap

COMPONENTS = ("redundant", "unique1", "unique2", "synergy")
BIT = float(np.log(2.0))


@dataclass(frozen=True)
class PID:
    """What two sources tell about Y: both of them, only one of them, and only the two together."""

    redundant: float
    unique1: float
    unique2: float
    synergy: float
    unit: str = "bits"

    @property
    def total(self) -> float:
        """I(X1, X2; Y)."""
        return self.redundant + self.unique1 + self.unique2 + self.synergy

    @property
    def information1(self) -> float:
        """I(X1; Y)."""
        return self.redundant + self.unique1

    @property
    def information2(self) -> float:
        """I(X2; Y)."""
        return self.redundant + self.unique2

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {getattr(self, name):.4f}" for name in COMPONENTS)
        return f"{parts} (total {self.total:.4f} {self.unit})"


def decompose(both: Any, first: Any, second: Any, aligned: Any) -> dict[str, Any]:
    """The components from I(X1,X2;Y), I(X1;Y), I(X2;Y) and the least I_q(X1,X2;Y) with the same two-way marginals."""
    return {
        "redundant": first + second - aligned,
        "unique1": aligned - second,
        "unique2": aligned - first,
        "synergy": both - aligned,
    }


@dataclass(frozen=True)
class PIDEstimate:
    """A decomposition told from examples, with intervals, and what the same procedure finds in permuted labels.

    An estimate means something by as much as it exceeds its null: a null far above 0 is bias, not information. The
    bias of the null is not exactly that of the estimate, so it is shown beside it and not taken off.

    Args:
        redundant, unique1, unique2, synergy: With the interval that resampling the held-out examples gives.
        null: The decompositions found after permuting the labels.
        unit: Of all of them.
    """

    redundant: Estimate
    unique1: Estimate
    unique2: Estimate
    synergy: Estimate
    null: tuple[PID, ...]
    unit: str = "bits"

    @property
    def pid(self) -> PID:
        """The values without their intervals."""
        return PID(**{name: getattr(self, name).value for name in COMPONENTS}, unit=self.unit)

    @property
    def null_mean(self) -> dict[str, float]:
        """Mean of each component over the permutations; NaN without any."""
        return {name: float(draws.mean()) if len(draws) else np.nan for name, draws in self._draws()}

    @property
    def null_spread(self) -> dict[str, float]:
        """Standard deviation of each component over the permutations; NaN for fewer than two."""
        return {name: float(draws.std(ddof=1)) if len(draws) > 1 else np.nan for name, draws in self._draws()}

    @property
    def p_value(self) -> dict[str, float]:
        """How often permuted labels give as much as these, counting these among them; at least 1 / (permutations + 1).

        NaN where the value or one of the permutations is.

        Permuted labels are told by nothing. So a small one says that there is information, not that this component holds
        some of it: where another component is large, see whether this one's interval leaves 0.
        """
        return {name: _p(getattr(self, name).value, draws) for name, draws in self._draws()}

    def _draws(self) -> list[tuple[str, Array]]:
        return [(name, np.array([getattr(one, name) for one in self.null])) for name in COMPONENTS]

    def __str__(self) -> str:
        mean, spread, p = self.null_mean, self.null_spread, self.p_value
        n = len(self.null)
        least = f" (p is at least {1 / (n + 1):.3f})" if n else ""
        lines = [f"{self.unit:<10}{'value and interval':<25}null of {n} permutations{least}"]
        for name in COMPONENTS:
            null = f"{mean[name]:.3f} ± {spread[name]:.3f}   p {p[name]:.3f}" if self.null else "none"
            lines.append(f"{name:<10}{getattr(self, name)!s:<25}{null}")
        return "\n".join(lines)


def _p(value: float, draws: Array) -> float:
    if np.isnan(value) or np.isnan(draws).any():
        return float("nan")
    return float(1 + (draws >= value).sum()) / (1 + len(draws))


Pointwise = Mapping[str, Array]


def estimate(
    measured: Callable[[Array, int], Pointwise],
    y: Array,
    parts: Sequence[Array],
    nulls: int,
    seed: int,
    level: float,
    draws: int,
) -> PIDEstimate:
    """The result of a procedure, and of the same procedure on permuted labels.

    Args:
        measured: From labels, and the number of the permutation or 0 for the labels themselves, to every held-out example's
            share of each component, in nats; the mean is the component.
        y: Labels.
        parts: The rows of the two halves. Labels are permuted in each, so that both keep their classes.
        nulls: How many permutations.
        seed: Of the permutations and of the bootstrap.
        level: Of the intervals.
        draws: Resamples of an interval.
    """
    shares = measured(y, 0)
    found: dict[str, Any] = {}
    for name in COMPONENTS:
        one = bootstrap(np.mean, shares[name] / BIT, level=level, draws=draws, seed=seed)
        found[name] = replace(one, value=_rounded(one.value), low=_rounded(one.low), high=_rounded(one.high))
    rng = np.random.default_rng([seed, 1])
    null = []
    for k in range(nulls):
        permuted = y.copy()
        for rows in parts:
            permuted[rows] = rng.permutation(y[rows])
        null.append(PID(**_means(measured(permuted, 1 + k)), unit="bits"))
    return PIDEstimate(**found, null=tuple(null), unit="bits")


def _means(shares: Pointwise) -> dict[str, Any]:
    return {name: _rounded(shares[name].mean() / BIT) for name in COMPONENTS}


def _rounded(x: float) -> float:
    """Without what is left of a 0 by rounding, so that zeros are equal and none is negative."""
    return round(float(x), 12) + 0.0


def checked(
    x1: ArrayLike | Tensor, x2: ArrayLike | Tensor, y: ArrayLike | Tensor, nulls: int, least: int, each: int
) -> tuple[Array, Array, Array, int]:
    """Features as ``(examples, width)``, labels as 0, 1, …, and how many classes there are.

    Args:
        x1, x2, y, nulls: As they came.
        least: How many examples are needed.
        each: How many of each class.
    """
    features = [numbers(x1, "x1"), numbers(x2, "x2")]
    labels = as_array(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise ValueError(f"Labels are one class for each example; got an array of shape {labels.shape}.")
    n = len(labels)
    for name, x in zip(("x1", "x2"), features, strict=True):
        if x.ndim == 0 or len(x) != n:
            raise ValueError(f"{name} needs a row for each of the {n} labels; got an array of shape {x.shape}.")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} holds NaN or infinite values; drop those examples or fill them in.")
    if n < least:
        raise ValueError(f"These settings need at least {least} examples; got {n}.")
    classes, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"All {n} labels are {classes.tolist()[0]!r}, so there is no information to decompose.")
    if len(classes) > n // 4:
        raise ValueError(f"Labels are classes, each with some examples; got {len(classes)} values in {n} examples.")
    if counts.min() < each:
        raise ValueError(
            f"Class {classes.tolist()[counts.argmin()]!r} has {counts.min()} examples, and at least {each} of each are "
            "needed; leave its examples out or join it with another class."
        )
    if nulls < 0:
        raise ValueError(f"nulls is how many permutations to try, 0 or more; got {nulls}.")
    return features[0].reshape(n, -1), features[1].reshape(n, -1), labels, len(classes)


def numbers(x: ArrayLike | Tensor, name: str) -> Array:
    """As an array of float64."""
    try:
        return as_array(x).astype(np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{name} is an array of numbers; got a {type(x).__name__} ({e}).") from e


def halves(labels: Array, seed: int) -> tuple[Array, Array]:
    """Rows in two parts of about equal size, at random, with half of each class in both."""
    order = np.random.default_rng([seed, 0]).permutation(len(labels))
    first = np.zeros(len(labels), dtype=bool)
    odd = 0
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        first[rows[: (len(rows) + 1 - odd) // 2]] = True
        odd = (odd + len(rows)) % 2  # the one too many goes to the first part, then to the second
    # Only those on the wrong side change places, so that this is as near as it can be to a split that ignores classes.
    half = (len(labels) + 1) // 2
    out, back = np.flatnonzero(~first[order[:half]]), half + np.flatnonzero(first[order[half:]])
    order[out], order[back] = order[back], order[out]
    return order[:half], order[half:]
