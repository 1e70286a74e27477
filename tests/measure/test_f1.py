"""F1 of each class, and the threshold for a rare one: against scikit-learn, and properties that need no other code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synib.measure import best_shift, f1_by_class

LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30)


@given(LABELS)
def test_f1_is_scikit_learns_where_a_class_occurs_or_is_predicted_and_nan_elsewhere(pairs):
    metrics = pytest.importorskip("sklearn.metrics")
    predicted, target = np.array(pairs).T
    each = f1_by_class(predicted, target, 5)
    there = sorted({*predicted.tolist(), *target.tolist()})
    other = metrics.f1_score(target, predicted, labels=there, average=None, zero_division=0)
    assert each[there] == pytest.approx(other)
    assert np.isnan(np.delete(each, there)).all()
    assert f1_by_class(target, predicted, 5) == pytest.approx(each, nan_ok=True)  # who is right does not matter


def made(seed, classes=4, n=120, rare=3.0):
    """Logits that know the class in part, and of which one class has too little."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, n)
    of = seed % classes
    return rng.normal(0, 1, (n, classes)) + 2 * np.eye(classes)[target] - rare * np.eye(classes)[of], target, of


def macro(logits, target, of, shift):
    return np.nanmean(f1_by_class((logits + shift * np.eye(logits.shape[1])[of]).argmax(1), target, logits.shape[1]))


@pytest.mark.parametrize("seed", range(6))
def test_no_other_shift_has_a_better_macro_f1(seed):
    logits, target, of = made(seed)
    chosen = best_shift(logits, target, of)
    reached = macro(logits, target, of, chosen)
    assert reached > macro(logits, target, of, 0.0) + 0.05
    assert reached >= max(macro(logits, target, of, s) for s in np.linspace(-15, 15, 601)) - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_what_the_logits_lacked_is_what_they_are_given(seed):
    """Up to how far a line between two examples may lie from another: what is predicted is the same."""
    logits, target, of = made(seed)
    column = np.eye(4)[of]
    before, after = (best_shift(logits + more * column, target, of) + more for more in (0.0, 2.5))
    assert macro(logits, target, of, after) == pytest.approx(macro(logits, target, of, before))
    assert best_shift(logits + np.arange(len(logits))[:, None], target, of) == pytest.approx(
        best_shift(logits, target, of)
    )


def test_nothing_is_shifted_where_nothing_is_gained_and_of_equals_the_nearest_is_taken():
    target = np.arange(8) % 4
    assert best_shift(10 * np.eye(4)[target], target, 3) == 0.0
    # Any shift above 1 and below 9 is as good as any other that tells these two apart; below 1 nothing is called 1.
    logits = np.array([[9.0, 0.0], [1.0, 0.0]])
    assert best_shift(logits, [0, 1], 1) == 5.0
    # Calling none of it and calling all are as good as each other.
    assert best_shift([[0.0, 2.0], [0.0, 1.0]], [0, 1], 1) == 0.0
    # A class that never occurs is best never called.
    assert best_shift([[0.0, 3.0], [0.0, 2.0]], [0, 0], 1) < -3
