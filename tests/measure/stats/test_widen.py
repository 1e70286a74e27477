"""What the choice of a background adds to an interval."""

import math

import pytest

from synib.measure import Estimate
from synib.measure.stats import widen


def test_an_interval_that_draws_widen_adds_reaches_as_squares():
    one = Estimate(1.0, 0.7, 1.3, 100)
    wide = widen(one, [0.9, 1.1], 1.0)  # a standard error of 0.1, and 12.706 of them with one degree of freedom
    assert wide.high == pytest.approx(1 + math.hypot(0.3, 1.2706), rel=1e-4)
    assert wide.low == pytest.approx(1 - math.hypot(0.3, 1.2706), rel=1e-4)
    assert widen(one, [0.9, 1.1], 0.0) == widen(one, [], 1.0) == one
