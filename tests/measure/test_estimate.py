"""Numbers with intervals."""

import math

import numpy as np
import pytest
import torch

from synib.measure import Estimate, bootstrap


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


def test_arrays_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"a row for each example; got \[3, 2\] rows"):
        bootstrap(lambda a, b, axis: a.mean(axis), [1, 2, 3], [1, 2])


def test_it_reads_like_a_number_with_an_interval():
    assert str(Estimate(0.5, 0.25, 0.75, 10)) == "0.500 [0.250, 0.750]"
