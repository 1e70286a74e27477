"""Mean leads of one score over another."""

import numpy as np
import pytest

from synib.own.row_scores import lead


def test_a_lead_is_the_mean_difference_and_leaves_out_rows_that_were_not_tested():
    rng = np.random.default_rng(0)
    ours, theirs = ((rng.random((2, 500)) < p).astype(float) for p in (0.8, 0.6))
    ours[:, :100] = np.nan
    estimate = lead(ours, theirs, None)
    assert estimate.value == pytest.approx((ours - theirs)[:, 100:].mean())
    assert estimate.n == 400
    assert estimate.low < 0.2 < estimate.high


def test_groups_that_share_their_luck_widen_the_interval():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(20), 30).astype(str)
    ours = (rng.random(600) < rng.random(20)[np.arange(600) // 30]).astype(float)
    rows, groups = lead(ours, np.zeros(600), None), lead(ours, np.zeros(600), group)
    assert groups.value == pytest.approx(rows.value)
    assert groups.n == 600
    assert groups.high - groups.low > 2 * (rows.high - rows.low)


def test_what_is_no_share_may_be_below_zero():
    assert lead(np.full(50, -3.0) + np.arange(50) / 50, np.zeros(50), None).high < -2
