"""Numbers with intervals."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synib.measure import Estimate, bootstrap, interval, statistics
from synib.measure.stats import difference, proportion


def test_a_bootstrap_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    found = [bootstrap(np.mean, rng.normal(1.0, 2.0, 60), draws=400, seed=s) for s in range(300)]
    covered = np.mean([one.low <= 1.0 <= one.high for one in found])
    assert 0.9 < covered < 0.98


def test_rows_of_several_arrays_stay_together():
    x = np.random.default_rng(0).normal(size=200)
    one = bootstrap(lambda a, b, axis: np.mean(a - b, axis=axis), x, x - 0.5)
    assert (one.value, one.low, one.high) == (pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5))
    slow = bootstrap(lambda a, b: float(np.mean(a - b)), x, 0.5 * x, vectorized=False, draws=50)
    assert slow.low < slow.value < slow.high


def test_the_seed_decides_the_interval_and_tensors_are_taken_too():
    x = np.random.default_rng(0).normal(size=100)
    assert bootstrap(np.mean, x) == bootstrap(np.mean, torch.from_numpy(x).requires_grad_())
    assert bootstrap(np.mean, x, seed=1) != bootstrap(np.mean, x)


def test_what_few_examples_cannot_tell_is_nan():
    assert math.isnan(bootstrap(np.mean, []).value)
    one = bootstrap(np.mean, [2.0])
    assert (one.value, one.n) == (2.0, 1)
    assert math.isnan(one.low)


def test_a_proportion_is_the_bootstrap_of_a_mean_where_there_is_spread():
    hits = np.arange(90) % 3 == 0
    assert proportion(hits) == bootstrap(np.mean, hits)
    assert proportion(torch.from_numpy(hits), np.arange(90) < 60).n == 60
    both = proportion(np.stack([hits, ~hits], 1), np.stack([hits, hits], 1))
    assert (both.value, both.n) == (0.5, 30)


def test_where_all_say_the_same_the_interval_is_the_exact_binomial_one():
    for hits in (np.zeros(12), np.ones(12)):
        for level in (0.95, 0.8):
            one = proportion(hits, level=level)
            exact = stats.binomtest(int(hits.sum()), 12).proportion_ci(level)
            assert (one.low, one.high, one.level) == pytest.approx((exact.low, exact.high, level))
    assert proportion([1.0]).low == pytest.approx(0.025)
    assert math.isnan(proportion([]).low)


@pytest.mark.parametrize(
    ("pair", "below", "above"), [((0, 0), 1, 1), ((1, 0), 2, 0), ((0, 1), 0, 2), ((0.5, 0), 1.5, 0.5)]
)
def test_equal_differences_leave_room_for_others_down_to_minus_one_and_up_to_one(pair, below, above):
    one = difference(*(np.full(20, x) for x in pair))
    reach = 1 - 0.025 ** (1 / 20)
    assert one.value == pair[0] - pair[1]
    assert (one.low, one.high) == pytest.approx((one.value - reach * below, one.value + reach * above))


def test_a_difference_is_paired():
    hits = np.arange(90) % 3 == 0
    one = difference(hits, ~hits)
    assert one.value == pytest.approx(-1 / 3)
    near = difference(hits, np.where(np.arange(90) < 2, ~hits, hits))
    assert near.high - near.low < 0.1


def test_the_basic_interval_mirrors_the_percentiles_at_the_value():
    x = np.random.default_rng(0).exponential(size=50)
    plain, basic = bootstrap(np.mean, x), bootstrap(np.mean, x, method="basic")
    assert (basic.low, basic.high) == pytest.approx((2 * plain.value - plain.high, 2 * plain.value - plain.low))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
def test_a_level_that_is_no_level_is_refused(level):
    with pytest.raises(ValueError, match=f"lies between 0 and 1; got {level}"):
        bootstrap(np.mean, [0.0, 1.0], level=level)


def test_no_resamples_are_refused():
    with pytest.raises(ValueError, match="draws is a whole number of at least 1; got 0"):
        bootstrap(np.mean, [0.0, 1.0], draws=0)


def test_arrays_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"as many rows; got \[3, 2\] rows"):
        bootstrap(lambda a, b, axis: a.mean(axis), [1, 2, 3], [1, 2])


def test_it_reads_like_a_number_with_an_interval():
    assert str(Estimate(0.5, 0.25, 0.75, 10)) == "0.500 [0.250, 0.750]"


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("n", [2, 10, 200])
def test_an_interval_is_students(n, level):
    numbers = np.random.default_rng(n).normal(3.0, 2.0, n)
    expected = stats.ttest_1samp(numbers, 0.0).confidence_interval(level)
    found = statistics(numbers.tolist())
    assert interval(found["mean"], found["se"], found["n"], level) == pytest.approx(tuple(expected))


def test_what_few_numbers_cannot_tell_is_none():
    assert statistics([]) == {"mean": None, "se": None, "n": 0}
    assert statistics([2.0]) == {"mean": 2.0, "se": None, "n": 1}
