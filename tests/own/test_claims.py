"""Claims beside that of synergy: their error rate, together, where nothing is true."""

import numpy as np

from synib.measure.stats import Estimate, difference, inverted_p_value, mean
from synib.own.claims import ABOVE_CHANCE, POOLING, Claims, _p_above, _p_larger, _p_smaller
from synib.own.metric import Metric
from synib.own.table import Table


def test_claims_are_adjusted_by_holms_procedure():
    claims = Claims({"a": 0.01, "b": 0.04, "c": 0.03})
    assert {name: round(p, 9) for name, p in claims.adjusted.items()} == {"a": 0.03, "b": 0.06, "c": 0.06}
    assert claims.hold("a")
    assert not claims.hold("b")
    assert not claims.hold("d")


def test_where_nothing_is_true_some_claim_is_made_in_at_most_one_of_twenty_sets():
    rng, families, single = np.random.default_rng(0), 0, 0
    for _ in range(400):
        right = (rng.random((4, 150)) < 0.5).astype(float)

        def p_of(k, right=right):
            return inverted_p_value(lambda level: difference(right[0], right[k], level=level))

        p_values = {str(k): p_of(k) for k in range(1, 4)}
        families += any(p <= 0.05 for p in Claims(p_values).adjusted.values())
        single += any(p <= 0.05 for p in p_values.values())
    assert families / 400 <= 0.07
    assert single / 400 >= 0.09  # without the correction


def test_a_claim_has_a_small_p_value_only_in_its_own_direction():
    def large(level):
        return mean(np.linspace(0.05, 0.15, 50), level=level)

    assert _p_larger(large, 0.0) < 1e-6
    assert _p_smaller(large, 0.02) == 1.0
    assert _p_smaller(large, 0.2) < 1e-6
    assert _p_larger(large, 0.2) == 1.0


class Rows:
    group, seed = None, 0


def test_the_best_of_many_models_is_above_chance_in_one_of_twenty_sets_of_noise():
    rng = np.random.default_rng(0)
    false = [_p_above(Rows(), rng.normal(size=(8, 100))) <= 0.05 for _ in range(300)]  # type: ignore[arg-type]
    assert np.mean(false) <= 0.07
    assert _p_above(Rows(), np.zeros((2, 100))) == 1.0  # type: ignore[arg-type]
    assert Claims({ABOVE_CHANCE: _p_above(Rows(), rng.normal(1, 1, (2, 100))), POOLING: 0.9}).hold(ABOVE_CHANCE)  # type: ignore[arg-type]


def table(n=12):
    x = {name: np.random.default_rng(0).normal(size=(n, 2)) for name in "ab"}
    return Table.from_arrays(x, np.arange(n) % 2)


def test_twelve_of_twelve_right_is_no_certainty_and_no_difference_is_no_point():
    metric, all_right = Metric(table()), np.ones(12)
    assert (metric.estimate(all_right).value, round(metric.estimate(all_right).low, 3)) == (1.0, 0.758)
    same = metric.lead(all_right, all_right)
    assert isinstance(same, Estimate)
    assert same.low < -0.2 < 0.2 < same.high
    assert metric.lead(all_right, all_right, level=0.99).high > same.high
    grouped = metric.lead(all_right, all_right, np.arange(12) % 4)
    assert grouped.high > same.high
