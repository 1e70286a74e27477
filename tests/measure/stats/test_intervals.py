"""Numbers with intervals."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synib.measure import Estimate, bootstrap, interval, statistics
from synib.measure.stats import widen


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


def test_the_basic_interval_mirrors_the_percentiles_at_the_value():
    x = np.random.default_rng(0).exponential(size=50)
    plain, basic = bootstrap(np.mean, x), bootstrap(np.mean, x, method="basic")
    assert (basic.low, basic.high) == pytest.approx((2 * plain.value - plain.high, 2 * plain.value - plain.low))


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


def test_an_interval_that_draws_widen_adds_reaches_as_squares():
    one = Estimate(1.0, 0.7, 1.3, 100)
    wide = widen(one, [0.9, 1.1], 1.0)  # a standard error of 0.1, and 12.706 of them with one degree of freedom
    assert wide.high == pytest.approx(1 + math.hypot(0.3, 1.2706), rel=1e-4)
    assert wide.low == pytest.approx(1 - math.hypot(0.3, 1.2706), rel=1e-4)
    assert widen(one, [0.9, 1.1], 0.0) == widen(one, [], 1.0) == one
