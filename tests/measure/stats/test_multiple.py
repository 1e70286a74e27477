"""Simultaneous intervals hold their level together, and Holm's p-values are his."""

import numpy as np
import pytest
from scipy import stats

from synib.measure.stats import holm, inverted_p_value, mean, simultaneous


def candidates(rng, k, rows, correlation):
    common = rng.normal(size=rows)
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=(k, rows))


def test_a_single_candidate_has_the_interval_of_a_mean():
    x = np.random.default_rng(0).exponential(size=60)
    group = np.arange(60) % 7
    for groups in (None, group):
        found = simultaneous(x[None], groups)
        assert found.estimates == [mean(x, groups)]
        assert (found.p_values[0] < 0.025) == (mean(x, groups).low > 0)


def test_copies_of_one_candidate_cost_almost_nothing_and_independent_ones_bonferroni():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    copies = simultaneous(np.stack([x] * 8), draws=20_000)
    assert copies.critical == pytest.approx(stats.norm.ppf(0.975), abs=0.06)
    independent = simultaneous(rng.normal(size=(8, 500)), draws=20_000)
    assert independent.critical == pytest.approx(stats.norm.ppf(1 - 0.025 / 8), abs=0.06)


def test_p_values_lie_between_one_comparison_and_bonferroni_also_far_out():
    rng = np.random.default_rng(0)
    gains = candidates(rng, 6, 400, 0.5) + np.array([0, 0, 0.1, 0.2, 1, 3])[:, None]
    found = simultaneous(gains)
    alone = np.array([simultaneous(x[None]).p_values[0] for x in gains])
    assert (found.p_values >= alone).all()
    assert (found.p_values <= np.minimum(6 * alone, 1)).all()
    assert found.p_values[5] < 1e-50  # no floor of one over the number of draws
    assert found.best == 5
    assert found.critical == simultaneous(gains).critical != simultaneous(gains, seed=1).critical


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("k", [2, 12])
def test_rows_no_effect_is_claimed_in_one_of_twenty_and_all_intervals_hold_together(k, correlation):
    rng = np.random.default_rng(k)
    found = [simultaneous(candidates(rng, k, 150, correlation), draws=400, seed=s) for s in range(400)]
    claimed = np.mean([one.p_values.min() <= 0.05 for one in found])
    failed = np.mean([any(e.low > 0 or e.high < 0 for e in one.estimates) for one in found])
    assert 0.02 <= claimed <= 0.08
    assert 0.02 <= failed <= 0.08


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
@pytest.mark.parametrize("count", [4, 10, 30])
def test_groups_no_effect_is_claimed_in_one_of_twenty(count, sizes):
    rng = np.random.default_rng([count, 1])
    size = np.full(count, 12) if sizes == "equal" else np.linspace(4, 30, count).round().astype(int)
    group = np.repeat(np.arange(count), size)
    claimed, failed = [], []
    for s in range(400):
        x = candidates(rng, 6, count, 0.5)[:, group] * 0.6 + candidates(rng, 6, len(group), 0.5)
        one = simultaneous(x, group, draws=250, seed=s)
        claimed.append(one.p_values.min() <= 0.05)
        failed.append(any(e.low > 0 or e.high < 0 for e in one.estimates))
    assert np.mean(claimed) <= 0.08
    assert np.mean(failed) <= 0.08


def test_skewed_gains_hold_their_level_too():
    """Gains in log-loss of overconfident candidates: rarely, and then all together, very negative."""
    rng = np.random.default_rng(0)
    claimed, failed = [], []
    for s in range(300):
        score = rng.normal(0, 2, 120)
        sign = np.where(rng.random(120) < 1 / (1 + np.exp(-score)), 1, -1)
        each = 1.5 * score + 0.1 * rng.normal(size=(5, 120))
        gains = np.logaddexp(0, -0.5 * sign * score) - np.logaddexp(0, -sign * each)
        one = simultaneous(gains - 0.0170, draws=250, seed=s)  # their mean
        claimed.append(one.p_values.min() <= 0.05)
        failed.append(any(e.low > 0 or e.high < 0 for e in one.estimates))
    assert np.mean(claimed) <= 0.08
    assert np.mean(failed) <= 0.08


def test_one_good_candidate_of_ten_is_found_with_more_power_than_bonferroni():
    rng = np.random.default_rng(0)
    effect = np.zeros((10, 1))
    effect[3] = 0.16
    ours = theirs = 0
    for s in range(200):
        one = simultaneous(candidates(rng, 10, 400, 0.9) + effect, draws=1000, seed=s)
        ours += one.p_values[3] <= 0.05
        theirs += stats.t.sf(one.statistic[3], 399) <= 0.05 / 10
    assert ours > 1.1 * theirs
    assert ours / 200 > 0.8


def test_gains_that_never_vary_do_not_disturb_the_others():
    x = np.random.default_rng(0).normal(size=50)
    found = simultaneous(np.stack([np.zeros(50), x, np.full(50, 0.2)]))
    assert found.p_values[0] == 0.5
    assert found.p_values[2] == 0.0
    assert found.estimates[1] == mean(x)
    assert (found.estimates[0].low, found.estimates[0].high) == (0.0, 0.0)


def test_one_group_says_nothing():
    found = simultaneous(np.random.default_rng(0).normal(size=(3, 20)), np.zeros(20))
    assert np.isnan(found.p_values).all()
    assert np.isnan(found.estimates[0].low)
    assert np.isnan(found.critical)


# Holm


def test_holms_p_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]).shape == (0,)
    assert holm([np.nan, 0.02, 0.5])[1:] == pytest.approx([0.04, 0.5])
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, 1.2])


def test_a_p_value_agrees_with_its_intervals():
    x = np.random.default_rng(0).normal(0.5, 1, 30)

    def at(level):
        return mean(x, level=level)

    p = inverted_p_value(at)
    assert at(1 - 1.01 * p).low > 0 >= at(1 - 0.99 * p).low
    assert inverted_p_value(lambda level: mean(x + 100, level=level)) == pytest.approx(1e-8)
    assert inverted_p_value(at, float(x.mean())) > 0.9
    assert inverted_p_value(lambda level: mean(x, np.zeros(30), level)) == 1.0  # one group: no interval
    assert inverted_p_value(at, 5.0) == pytest.approx(1e-8)


def test_the_level_of_each_interval_lies_between_one_comparison_and_bonferroni():
    x = np.random.default_rng(0).normal(size=(4, 200))
    assert simultaneous(x[:1]).level_each == pytest.approx(0.95)
    assert 0.95 < simultaneous(x).level_each < 1 - 0.05 / 4 + 0.004
