"""Score intervals of proportions and of their paired differences."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synib.measure.stats import cross_validated, difference, proportion
from synib.measure.stats.clusters import clustered_means

Z = stats.norm.ppf(0.975)


def ends(estimate):
    return estimate.low, estimate.high


@pytest.mark.parametrize(("hits", "n"), [(0, 12), (12, 12), (3, 20), (50, 100), (1, 1)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_single_hits_have_wilsons_interval(hits, n, level):
    one = proportion(np.arange(n) < hits, level=level)
    expected = stats.binomtest(hits, n).proportion_ci(level, method="wilson")
    assert (one.value, *ends(one), one.n, one.level) == pytest.approx((hits / n, *expected, n, level))


def test_members_count_and_examples_are_counted_once():
    hits = np.arange(90) % 3 == 0
    assert proportion(torch.from_numpy(hits), np.arange(90) < 60) == proportion(hits[:60])
    both = proportion(np.stack([hits, ~hits], 1), np.stack([hits, hits], 1))
    assert (both.value, both.n) == (0.5, 30)
    assert both.low < 0.48  # 30 examples that all say one half are few still


def test_equal_repeats_change_nothing():
    hits = np.arange(50) % 3 == 0
    assert proportion(np.stack([hits] * 5, 1)) == proportion(hits)
    other = np.arange(50) % 2 == 0
    assert difference(np.stack([hits] * 5, 1), np.stack([other] * 5, 1)) == difference(hits, other)


def test_independent_repeats_count_as_more_examples_and_equal_means_are_not_certain():
    rng = np.random.default_rng(0)
    hits = rng.random((400, 5)) < 0.5
    one, single = proportion(hits), proportion(hits[:, 0])
    assert (single.high - single.low) / (one.high - one.low) == pytest.approx(math.sqrt(5), rel=0.1)
    for share in (0.1, 0.5, 0.99):
        same = proportion(np.full(20, share))
        assert same.low < share - 0.01
        assert same.high > share + 0.005


def test_proportions_are_covered_as_often_as_it_says():
    rng = np.random.default_rng(0)
    for n, p in [(30, 0.8), (100, 0.5), (100, 0.95), (1000, 0.7)]:
        counts = np.arange(n + 1)
        found = [proportion(counts[:n] < k) for k in counts]  # exact: every outcome with its probability
        inside = np.array([one.low <= p <= one.high for one in found])
        assert 0.93 <= (stats.binom.pmf(counts, n, p) * inside).sum() <= 0.975
    skill = rng.beta(2, 1, size=(600, 60, 1))  # examples differ in how often seeds are right
    hits = rng.random((600, 60, 4)) < skill
    inside = np.mean([one.low <= 2 / 3 <= one.high for one in map(proportion, hits)])
    assert 0.93 <= inside <= 0.975


@pytest.mark.parametrize("count", [4, 10, 30])
def test_hits_in_groups_are_covered_as_often_as_it_says(count):
    rng = np.random.default_rng(count)
    group = np.repeat(np.arange(count), 25)
    skill = rng.beta(14, 6, size=(800, count))
    hits = rng.random((800, len(group))) < skill[:, group]
    found = [proportion(one, groups=group) for one in hits]
    assert 0.93 <= np.mean([one.low <= 0.7 <= one.high for one in found]) <= 0.98
    by_row = [proportion(one) for one in hits[:200]]
    assert np.mean([one.low <= 0.7 <= one.high for one in by_row]) < 0.9  # what groups are for


def test_groups_that_are_all_right_count_as_so_many_examples():
    group = np.repeat(np.arange(12), 10)
    assert ends(proportion(np.ones(120), groups=group)) == pytest.approx(ends(proportion(np.ones(12))))
    same = difference(np.ones(120), np.ones(120), groups=group)
    assert ends(same) == pytest.approx(ends(difference(np.ones(12), np.ones(12))))
    assert proportion(np.ones(12), groups=np.arange(12)) == proportion(np.ones(12))


def test_groups_that_happen_to_agree_are_no_better_than_single_rows():
    hits, group = np.tile([1, 1, 0, 0, 1], 8), np.repeat(np.arange(4), 10)
    assert ends(proportion(hits, groups=group)) == pytest.approx(ends(proportion(hits)))
    other = np.tile([1, 0, 0, 1, 1], 8)
    assert ends(difference(hits, other, groups=group)) == pytest.approx(ends(difference(hits, other)))


def test_one_group_has_no_interval_and_no_examples_no_value():
    hits = np.arange(10) % 2
    for one in (proportion(hits, groups=["a"] * 10), difference(hits, 1 - hits, groups=["a"] * 10)):
        assert one.n == 10
        assert all(map(math.isnan, ends(one)))
    for none in (proportion([]), difference([], []), proportion(hits, hits > 1)):
        assert none.n == 0
        assert math.isnan(none.value)


# Differences


def tango(plus, minus, n, delta):
    """The score statistic by its definition, with the constrained estimate found by a search over a fine grid."""
    rate = np.linspace(0, (1 - delta) / 2, 200_001)[1:-1]  # of pairs that only the other gets right
    agree = np.maximum(1 - 2 * rate - delta, 1e-300)
    if delta < 0:
        rate = rate - delta
        agree = np.maximum(1 - 2 * rate - delta, 1e-300)
    likelihood = (
        plus * np.log(np.maximum(rate + delta, 1e-300)) + minus * np.log(rate) + (n - plus - minus) * np.log(agree)
    )
    best = rate[likelihood.argmax()]
    return (plus - minus - n * delta) / math.sqrt(n * (2 * best + delta * (1 - delta)))


@pytest.mark.parametrize(("plus", "minus", "n"), [(9, 2, 40), (1, 7, 60), (5, 5, 30)])
def test_differences_have_tangos_interval(plus, minus, n):
    ours = np.arange(n) < plus
    theirs = (np.arange(n) >= plus) & (np.arange(n) < plus + minus)
    one = difference(ours, theirs)
    assert one.value == pytest.approx((plus - minus) / n)
    assert tango(plus, minus, n, one.low) == pytest.approx(Z, abs=2e-3)
    assert tango(plus, minus, n, one.high) == pytest.approx(-Z, abs=2e-3)
    other = difference(theirs, ours)
    assert (other.value, *ends(other)) == pytest.approx((-one.value, -one.high, -one.low))


def test_equal_differences_leave_room_for_others():
    reach = Z**2 / (20 + Z**2)
    assert ends(difference(np.ones(20), np.ones(20))) == pytest.approx((-reach, reach))
    assert ends(difference(np.arange(20) % 2, np.arange(20) % 2)) == pytest.approx((-reach, reach))
    all_better = difference(np.ones(20), np.zeros(20))
    assert (all_better.value, all_better.high) == (1.0, 1.0)
    assert 0.6 < all_better.low < 0.85
    half = difference(np.full(20, 0.5), np.zeros(20))
    assert half.low < 0.45
    assert half.high > 0.55


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.02, 0.02), (0.2, 0.05), (0.0, 0.05)])
def test_differences_are_covered_as_often_as_it_says(rates):
    n = 120
    draws = np.random.default_rng(0).multinomial(n, [*rates, 1 - sum(rates)], size=1500)
    outcomes, count = np.unique(draws, axis=0, return_counts=True)
    inside = 0
    for (plus, minus, _), times in zip(outcomes, count, strict=True):
        one = difference(np.arange(n) < plus, (np.arange(n) >= plus) & (np.arange(n) < plus + minus))
        inside += times * (one.low <= rates[0] - rates[1] <= one.high)
    assert 0.93 <= inside / 1500 <= 0.98


@pytest.mark.parametrize("count", [4, 10])
def test_differences_in_groups_are_covered_as_often_as_it_says(count):
    rng = np.random.default_rng(count)
    group = np.repeat(np.arange(count), 30)
    luck = rng.normal(0, 0.1, size=(600, count))[:, group]
    ours, theirs = (rng.random((600, len(group))) < 0.6 + sign * luck for sign in (1, -1))
    found = [difference(a, b, groups=group) for a, b in zip(ours, theirs, strict=True)]
    assert 0.93 <= np.mean([one.low <= 0 <= one.high for one in found]) <= 0.98
    plain = clustered_means((ours[0].astype(float) - theirs[0])[None], groups=group)
    reach = stats.t.ppf(0.975, plain.df) * plain.se[0]
    assert found[0].high - found[0].low == pytest.approx(2 * reach, rel=0.15)


def test_a_difference_is_paired():
    hits = np.arange(90) % 3 == 0
    assert difference(hits, ~hits).value == pytest.approx(-1 / 3)
    near = difference(hits, np.where(np.arange(90) < 2, ~hits, hits))
    assert near.high - near.low < 0.12


def coverage_of_cross_validation(signal, folds, n=200, width=16, sets=1200):
    """How often the interval of a ridge classifier's accuracy covers the mean true accuracy of the trained models."""
    rng, fresh = np.random.default_rng(0), 1000
    inside = []
    for _ in range(sets):
        x, part = rng.normal(size=(n, width)), np.arange(n) % max(folds, 2)
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-signal * x[:, 0])), 1, -1)
        hits, true = np.full(n, np.nan), []
        for fold in range(folds):  # 1: a single split into halves
            test = part == fold
            weights = np.linalg.solve(x[~test].T @ x[~test] + n * np.eye(width), x[~test].T @ y[~test])
            hits[test] = np.sign(x[test] @ weights) == y[test]
            new = rng.normal(size=(fresh, width))
            p = 1 / (1 + np.exp(-signal * new[:, 0]))
            true.append(np.where(new @ weights > 0, p, 1 - p).mean())
        one = cross_validated(proportion(hits[~np.isnan(hits)]), folds)
        inside.append(one.low <= np.mean(true) <= one.high)
    return float(np.mean(inside))


def test_one_split_is_covered_as_often_as_it_says_and_cross_validation_too():
    """Rows that test one model train the others, so that their errors are correlated (Bengio and Grandvalet 2004)."""
    assert coverage_of_cross_validation(1.0, folds=1) >= 0.93
    assert 0.93 <= coverage_of_cross_validation(1.0, folds=3) <= 0.97
    assert 0.90 <= coverage_of_cross_validation(0.0, folds=3) <= 0.94  # pure noise, where the correlation is largest


def test_cross_validation_widens_both_sides_and_a_single_split_neither():
    one = proportion(np.arange(40) < 30)
    assert cross_validated(one, 1) == one
    wider = cross_validated(one, 5)
    assert wider.value == one.value
    assert (wider.high - wider.value) / (one.high - one.value) == pytest.approx(math.sqrt(1.25))
    assert (wider.value - wider.low) / (one.value - one.low) == pytest.approx(math.sqrt(1.25))
