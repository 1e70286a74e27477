"""Standardisation."""

import numpy as np
import pytest

from synib.measure.stats import standardisation, standardised


def test_columns_have_mean_0_and_deviation_1_over_the_fitted_rows_and_constant_ones_are_0():
    x = np.random.default_rng(0).normal(5.0, 3.0, (200, 3))
    x[:, 1] = 1e6 + 1e-4 * np.arange(200) % 2  # constant up to rounding
    rows = np.arange(100)
    scaled = standardisation(x, rows)(x)
    assert scaled[rows].mean(0) == pytest.approx(0, abs=1e-12)
    assert scaled[rows][:, [0, 2]].std(0) == pytest.approx(1)
    assert not scaled[:, 1].any()
    assert not np.allclose(scaled[100:].mean(0), 0)
    assert standardised(x)[:, 0].std() == pytest.approx(1)


def test_rows_summed_up_in_pieces_give_the_same_scale():
    x = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float16)
    whole, pieces = standardisation(x), standardisation(x, chunk=7)
    assert pieces.mean == pytest.approx(whole.mean)
    assert pieces.factor == pytest.approx(whole.factor)
    assert not standardisation(x, np.arange(0)).factor.any()
