"""A decomposition of information, exact or estimated."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from synib.measure.arrays import Array
from synib.measure.stats import Estimate, p_value

COMPONENTS = ("redundant", "unique1", "unique2", "synergy")


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
