"""Intervals of means: coverage on seeded simulations, and pinned values."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synib.measure.stats import corrected_resampled_t, interval, mean, resampled_p_value
from synib.measure.stats.clusters import clustered_means, reskewed, unskewed


def covered(x, truth=0.0, groups=None):
    """How often the 95 % intervals of these samples hold the truth, lie above it, and lie below it."""
    found = clustered_means(x, groups=groups)  # all samples at once
    quantile = stats.t.ppf(0.975, found.df)
    low, high = found.limits(quantile)
    one = mean(x[0], groups)
    assert (one.low, one.high) == pytest.approx((low[0], high[0]))
    above, below = np.mean(low > truth), np.mean(high < truth)
    return 1 - above - below, above, below


def test_without_skewness_it_is_students_interval():
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    expected = stats.ttest_1samp(x, 0.0).confidence_interval(0.9)
    one = mean(torch.from_numpy(x), level=0.9)
    assert (one.value, one.low, one.high, one.n, one.level) == pytest.approx((0.0, *expected, 5, 0.9))


def test_a_long_tail_moves_the_interval_towards_it():
    x = np.array([0.0] * 30 + [1.0] * 9 + [12.0])
    plain, one = stats.ttest_1samp(x, 0.0).confidence_interval(), mean(x)
    assert one.low > plain.low
    assert one.high > plain.high
    assert (one.value, one.low, one.high) == pytest.approx((0.525, 0.126996, 2.582237), abs=1e-5)


def test_the_transformation_is_monotone_and_inverted():
    t = np.linspace(-8, 8, 101)
    for skewness in (-2.0, -0.3, 0.0, 1e-12, 0.7):
        assert (np.diff(unskewed(t, skewness)) >= 0).all()
        np.testing.assert_allclose(reskewed(unskewed(t, skewness), skewness), t, atol=1e-6)


def log_loss_gains(rng, shape):
    """A timid model's log-loss minus that of an overconfident one: bounded above, rarely very negative."""
    score = rng.normal(0, 2, shape)
    sign = np.where(rng.random(shape) < 1 / (1 + np.exp(-score)), 1, -1)
    return np.logaddexp(0, -0.5 * sign * score) - np.logaddexp(0, -1.5 * sign * score)


SKEWED = {
    "log-loss gains": (log_loss_gains, 0.0176866),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0),
}


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("kind", SKEWED)
def test_rows_are_covered_as_often_as_it_says_at_both_ends(kind, n):
    draw, truth = SKEWED[kind]
    inside, above, below = covered(draw(np.random.default_rng(0), (3000, n)), truth)
    assert 0.93 <= inside <= 0.97
    assert max(above, below) < 0.04  # Student's has .064 for log-loss gains at n = 100


SIZES = {"equal": lambda g: np.full(g, 12), "unequal": lambda g: np.linspace(4, 30, g).round().astype(int)}


@pytest.mark.parametrize("shape", ["normal", "skewed", "skewed effects"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("count", [4, 6, 10, 30])
def test_groups_are_covered_as_often_as_it_says(count, sizes, shape):
    rng = np.random.default_rng(count)
    group = np.repeat(np.arange(count), SIZES[sizes](count))
    luck, noise = rng.normal(size=(4000, count)), rng.normal(size=(4000, len(group)))
    if shape == "skewed":
        noise = rng.exponential(size=noise.shape) - 1
    if shape == "skewed effects":
        luck, noise = rng.exponential(size=luck.shape) - 1, 0.5 * noise
        inside, _, _ = covered(luck[:, group] + noise, groups=group)
        assert 0.92 <= inside <= 0.97  # Student's covers .88 to .91 with 4 to 10 groups
        return
    inside, above, below = covered(0.6 * luck[:, group] + noise, groups=group)
    assert 0.93 <= inside <= 0.97
    assert max(above, below) < 0.04


def test_with_symmetric_groups_of_one_size_it_is_students_interval_of_their_means():
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=(6, 5)), np.repeat(list("cabfed"), 5)
    x += (np.array([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5]) - x.mean(1))[:, None]
    expected = stats.ttest_1samp(x.mean(1), 0.0).confidence_interval()
    one = mean(x.reshape(-1), group)
    assert (one.value, one.low, one.high, one.n) == pytest.approx((x.mean(), *expected, 30))


def test_skewed_groups_widen_the_interval_towards_their_tail_and_narrow_it_nowhere():
    x, group = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 3.0]), np.arange(6)
    expected = stats.ttest_1samp(x, 0.0).confidence_interval()
    one = mean(np.repeat(x, 2), np.repeat(group, 2))
    assert one.low == pytest.approx(expected.low)
    assert one.high - one.value > 1.5 * (expected.high - one.value)
    other = mean(np.repeat(-x, 2), np.repeat(group, 2))
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))


def test_two_groups_have_one_degree_of_freedom_and_one_has_none():
    x = np.array([0.0, 0.2, 1.0, 1.2])
    two = mean(x, [0, 0, 1, 1])
    assert (two.value, two.high) == pytest.approx((0.6, 0.6 + 12.7062 * 0.5), rel=1e-4)
    one = mean(x, ["a"] * 4)
    assert (one.value, one.n) == (0.6, 4)
    assert math.isnan(one.low)
    assert math.isnan(one.high)


def test_unequal_groups_have_fewer_degrees_of_freedom():
    """Against the definition: trace squared over squared norm of the covariance of the adjusted residual sums."""
    sizes = np.array([2, 3, 5, 30])
    group = np.repeat(np.arange(4), sizes)
    share = sizes / sizes.sum()
    residual = np.eye(4) - np.outer(share, np.ones(4))
    adjust = np.diag(1 / np.sqrt(1 - share))
    covariance = adjust @ residual @ np.diag(sizes) @ residual.T @ adjust
    expected = np.trace(covariance) ** 2 / np.square(covariance).sum()
    assert clustered_means(np.zeros((1, 40)), groups=group).df == pytest.approx(expected)
    assert expected < 2.5


def test_groups_of_single_rows_are_rows():
    x = np.random.default_rng(0).exponential(size=40)
    assert mean(x, np.arange(40)) == mean(x)


def test_what_few_rows_cannot_tell_is_nan_and_equal_rows_are_certain():
    assert math.isnan(mean([]).value)
    assert math.isnan(mean([2.0]).low)
    assert (mean([0.1] * 9).low, mean([0.1] * 9).high) == pytest.approx((0.1, 0.1))


# Fold by fold


def test_the_corrected_resampled_t_is_nadeau_and_bengios():
    x = np.array([0.02, 0.04, 0.01, 0.03, 0.05])
    reach = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + 1 / 4) * x.var(ddof=1))
    one = corrected_resampled_t(x, 0.2)
    assert (one.value, one.low, one.high, one.n) == pytest.approx((0.03, 0.03 - reach, 0.03 + reach, 5))
    assert corrected_resampled_t(np.stack([x, x]), 0.2).n == 10
    assert math.isnan(corrected_resampled_t([0.1], 0.2).low)
    assert math.isnan(corrected_resampled_t([], 0.2).value)


def test_it_holds_its_level_where_splits_share_their_rows_and_the_plain_t_does_not():
    """Which of two ridge penalties predicts better, by 10 repeats of 2 folds: the same on average, for an even choice."""
    rng = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(250):
        y, a, b = rng.normal(size=(3, 40))  # both features tell nothing, so that either is as good
        differences = []
        for _ in range(10):
            order = rng.permutation(40)
            for test, train in ((order[:20], order[20:]), (order[20:], order[:20])):
                errors = [np.square(y[test] - x[test] * (x[train] @ y[train]) / (x[train] @ x[train])) for x in (a, b)]
                differences.append((errors[0] - errors[1]).mean())
        low, high = stats.ttest_1samp(differences, 0.0).confidence_interval()
        plain.append(low > 0 or high < 0)
        one = corrected_resampled_t(differences, 0.5)
        corrected.append(one.low > 0 or one.high < 0)
    assert np.mean(plain) > 0.15
    assert np.mean(corrected) <= 0.07


@pytest.mark.parametrize(("test_share", "n"), [(None, 12), (1 / 6, 6), (0.2, 5)])
def test_the_p_value_is_the_level_at_which_the_interval_reaches_0(test_share, n):
    p = resampled_p_value(0.03, 0.009, n, test_share)
    assert interval(0.03, 0.009, n, 1 - p, test_share)[0] == pytest.approx(0.0, abs=1e-9)
    assert resampled_p_value(-0.03, 0.009, n, test_share) == p
    assert (resampled_p_value(0.0, 0.0, n), resampled_p_value(0.1, 0.0, n)) == (1.0, 0.0)
