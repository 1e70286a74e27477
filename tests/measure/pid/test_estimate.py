"""Halves, permutations and mistakes, the same for every estimator."""

import numpy as np
import pytest

from synib.measure.pid import pid_neural, pid_quantised
from synib.measure.pid.decomposition import COMPONENTS
from synib.measure.pid.estimate import estimate
from synib.measure.stats import halves


@pytest.mark.parametrize("seed", range(3))
def test_both_halves_have_half_of_every_class_in_a_random_order(seed):
    y = np.repeat(np.arange(5), [200, 4, 5, 7, 31])
    first, second = halves(y, seed)
    assert sorted([*first, *second]) == list(range(len(y)))
    counts = np.array([np.bincount(y[rows], minlength=5) for rows in (first, second)])
    assert np.abs(counts[0] - counts[1]).max() <= 1
    assert len(first) - len(second) == len(y) % 2
    assert all(np.corrcoef(np.arange(len(rows)), y[rows])[0, 1] ** 2 < 0.1 for rows in (first, second))
    assert not np.array_equal(first, halves(y, seed + 1)[0])


def test_labels_are_permuted_within_each_half():
    """A half of only zeros for its permutations would tell nothing at all."""
    y = np.arange(40) % 2
    seen = []
    parts = halves(y, 0)

    def measured(labels, number):
        seen.append(labels)
        return {c: np.zeros(40) for c in COMPONENTS}

    estimate(measured, y, parts, 8, 0, 0.95)
    assert len({tuple(labels) for labels in seen}) == 9
    assert all(labels[rows].sum() == y[rows].sum() for labels in seen for rows in parts)


X, Y = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 2


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        ((X, X[:50], Y), {}, r"x2 needs a row for each of the 100 labels; got an array of shape \(50, 2\)"),
        ((X * np.nan, X, Y), {}, "x1 holds NaN or infinite values"),
        ((X, X, Y * 0), {}, "All 100 labels are 0, so there is no information to decompose"),
        ((X, X, X[:, 0]), {}, "Labels are classes, each with some examples; got 100 values in 100 examples"),
        ((X, X, X), {}, r"Labels are one class for each example; got an array of shape \(100, 2\)"),
        (({"a": X}, X, Y), {}, "x1 is an array of numbers; got a dict"),
        ((X, [["a"], ["b"]], Y), {}, "x2 is an array of numbers; got a list"),
        ((X, X, Y), {"nulls": -1}, "nulls is a whole number of at least 0; got -1"),
    ],
)
@pytest.mark.parametrize("pid", [pid_quantised, pid_neural])
def test_mistakes_get_a_sentence(pid, arguments, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        pid(*arguments, **settings)
