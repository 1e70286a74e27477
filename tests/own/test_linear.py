"""Ridge regression by blocks: the numbers of scikit-learn's, whose penalty leave-one-out chooses."""

import numpy as np
import pytest

from synib.own import linear

RidgeCV = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is part of synib[audit]").RidgeCV


@pytest.mark.parametrize(("width", "noise"), [(5, 0.5), (40, 3.0), (120, 1.0), (300, 1.0)])
def test_it_predicts_as_scikit_learn_does(width, noise, monkeypatch):
    monkeypatch.setattr(linear, "BLOCK", 17)
    rng = np.random.default_rng(width)
    x = (3 + 2 * rng.normal(size=(150, width))).astype(np.float32)
    y = x[:, :2] @ rng.normal(size=(2, 2)) + noise * rng.normal(size=(150, 2))
    order = rng.permutation(150)
    fitted, tested = order[:100], order[100:]
    z = (x - x[fitted].mean(0)) / x[fitted].std(0)
    expected = RidgeCV(linear.PENALTIES).fit(z[fitted], y[fitted]).predict(z[tested])
    assert linear.ridge_predictions(x, y, fitted, tested) == pytest.approx(expected, abs=1e-3)


def test_a_constant_feature_changes_nothing():
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(60, 3)), np.arange(60)
    y = x[:, :1] + 0.1 * rng.normal(size=(60, 1))
    with_constant = np.concatenate([x, np.full((60, 1), 7.0)], 1)
    expected = linear.ridge_predictions(x, y, rows[:40], rows[40:])
    assert linear.ridge_predictions(with_constant, y, rows[:40], rows[40:]) == pytest.approx(expected)
