"""A decomposition of information, exact or estimated."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from synib.measure.arrays import Array
from synib.measure.stats import Estimate, p_value

COMPONENTS = ("redundant", "unique1", "unique2", "synergy")


@dataclass(frozen=True)
class PID:
    """The information of two sources about Y: redundant, unique to each, and synergistic."""

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
    """A decomposition estimated from examples, with intervals and a permutation null.

    Interpret an estimate by how far it exceeds its null: a null well above 0 is bias, not information. The bias of the
    null is not exactly that of the estimate, so it is reported next to it and not subtracted.

    Args:
        redundant, unique1, unique2, synergy: The components, with intervals from resampling the held-out examples.
        null: The decompositions after permuting the labels.
        unit: The unit of all values.
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
        """Permutation p-value of each component, at least 1 / (permutations + 1).

        NaN if the value or one of the permutations is NaN.

        Permuted labels are independent of everything. A small p-value therefore shows that there is information, not
        that this component contains some of it: if another component is large, check whether the interval of this one
        excludes 0.
        """
        return {name: p_value(getattr(self, name).value, draws) for name, draws in self._draws()}

    def _draws(self) -> list[tuple[str, Array]]:
        return [(name, np.array([getattr(pid, name) for pid in self.null])) for name in COMPONENTS]

    def __str__(self) -> str:
        mean, spread, p = self.null_mean, self.null_spread, self.p_value
        n = len(self.null)
        least = f" (p is at least {1 / (n + 1):.3f})" if n else ""
        lines = [f"{self.unit:<10}{'value and interval':<25}null of {n} permutations{least}"]
        for name in COMPONENTS:
            null = f"{mean[name]:.3f} ± {spread[name]:.3f}   p {p[name]:.3f}" if self.null else "none"
            lines.append(f"{name:<10}{getattr(self, name)!s:<25}{null}")
        return "\n".join(lines)
