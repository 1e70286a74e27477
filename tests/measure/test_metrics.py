"""Numbers about numbers."""

import numpy as np
import pytest
from scipy import stats

from synib.measure import interval, statistics


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("n", [2, 10, 200])
def test_an_interval_is_students(n, level):
    numbers = np.random.default_rng(n).normal(3.0, 2.0, n)
    expected = stats.ttest_1samp(numbers, 0.0).confidence_interval(level)
    found = statistics(numbers.tolist())
    assert interval(found["mean"], found["se"], found["n"], level) == pytest.approx(tuple(expected))
