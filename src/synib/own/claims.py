"""The secondary claims of an audit, and their p-values, adjusted for the number of claims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from synib.measure.stats import Estimate, holm, inverted_p_value, simultaneous
from synib.own.decision import SMALL, Answer
from synib.own.evidence import Bench, Numbers

LEVEL = 0.05
POOLING = "adding modalities is better than the best one"
NO_POOLING = "adding modalities gains less than 2 points over the best one"
LEARNS, LEARNS_LITTLE = "plain fusion learns the synergy", "plain fusion learns less than 2 points of it"
GAIN, ABOVE_CHANCE = "SynIB differs from its control", "some model is better than a constant prediction"


@dataclass(frozen=True)
class Claims:
    """The secondary claims that an audit may make, each with its two-sided p-value.

    Whether there is synergy is the primary question, tested at its own level. All other claims on the page form one family:
    by Holm's procedure the chance that any of them is false is at most 5 %, whatever their dependence.

    Args:
        p_values: Claim → the p-value of its negation.
    """

    p_values: Mapping[str, float]

    @property
    def adjusted(self) -> dict[str, float]:
        """Claim → its p-value adjusted for the number of claims (Holm 1979)."""
        if not self.p_values:
            return {}
        values = holm(list(self.p_values.values()))
        return dict(zip(self.p_values, map(float, values), strict=True))

    def hold(self, name: str) -> bool:
        """Whether a claim is significant after the adjustment."""
        return self.adjusted.get(name, 1.0) <= LEVEL


def claims_of(
    bench: Bench,
    synergy: Answer,
    additive: Numbers,
    single: Numbers,
    scores: Mapping[str, Numbers],
    chance: Numbers,
    rivals: tuple[str, str] | None,
) -> Claims:
    """The p-values of the claims of an audit.

    Args:
        bench: The tested rows.
        synergy: The answer to the primary question.
        additive: The additive model's score of each row.
        single: The best single modality's score of each row.
        scores: Model or detector → its score of each row.
        chance: A constant prediction's score of each row.
        rivals: SynIB's method and its control, if they are compared.
    """

    def pooling(level: float) -> Estimate:
        return bench.lead(additive, single, level)

    p_values = {
        POOLING: _p_larger(pooling, 0.0),
        NO_POOLING: _p_smaller(pooling, SMALL),
        ABOVE_CHANCE: _p_above(bench, np.stack(list(scores.values())) - chance),
    }
    if rivals is not None:
        synib, control = rivals
        p_values[GAIN] = inverted_p_value(lambda level: bench.lead_of_methods(synib, control, level))
        if synergy == "present":

            def plain(level: float) -> Estimate:
                return bench.lead(scores["vanilla"], additive, level)

            p_values |= {LEARNS: _p_larger(plain, 0.0), LEARNS_LITTLE: _p_smaller(plain, SMALL)}
    return Claims(p_values)


def _p_larger(interval: Callable[[float], Estimate], value: float) -> float:
    """The two-sided p-value of the claim that a quantity is larger than this; 1 if it is estimated not to be."""
    return inverted_p_value(interval, value) if interval(0.95).value > value else 1.0


def _p_smaller(interval: Callable[[float], Estimate], value: float) -> float:
    return inverted_p_value(interval, value) if interval(0.95).value < value else 1.0


def _p_above(bench: Bench, leads: Numbers) -> float:
    """Two-sided p-value of the best of several leads, corrected for choosing it (max-t)."""
    p = simultaneous(leads, bench.group, seed=bench.seed).p_values
    return float(min(1.0, 2 * np.nanmin(p))) if np.isfinite(p).any() else 1.0
