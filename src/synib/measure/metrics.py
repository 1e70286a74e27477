"""How good predictions are, as fractions in [0, 1]."""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from synib.objective import Family


def correct(family: Family, prediction: Tensor, target: Tensor) -> Tensor:
    """Which examples are predicted right, as 0 and 1."""
    return (family.predict(prediction) == target).float()


def accuracies(hits: Tensor, groups: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Mean over all examples, and over each group: ``name``, ``name_<group>``; NaN for a group without examples.

    Args:
        hits: What :func:`correct` gave, ``(..., examples)``.
        groups: Name → membership, shaped like ``hits``.
        name: What to call the metric.
    """
    result = {name: hits.mean(-1)}
    for group, members in groups.items():
        result[f"{name}_{group}"] = (hits * members).sum(-1) / members.sum(-1)
    return result


def statistics(numbers: Sequence[float]) -> dict[str, float | int | None]:
    """Mean, standard error of the mean, and n; what cannot be had from so few numbers is ``None``."""
    n = len(numbers)
    if n == 0:
        return {"mean": None, "se": None, "n": 0}
    mean = sum(numbers) / n
    if n == 1:
        return {"mean": mean, "se": None, "n": 1}
    variance = sum((x - mean) ** 2 for x in numbers) / (n - 1)
    return {"mean": mean, "se": math.sqrt(variance / n), "n": n}


def interval(mean: float, se: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Where the true mean lies with this confidence, if the ``n`` numbers are normal (Student's t)."""
    from scipy.stats import t as student  # slow to import

    reach = float(student.ppf((1 + level) / 2, n - 1)) * se
    return mean - reach, mean + reach
