"""PID of clusters: what is found, its bias and its interval."""

import sys

import numpy as np
import pytest
import torch

from synib.measure.estimate import Estimate
from synib.measure.pid import PID, PIDEstimate, broja, pid_quantised
from synib.measure.pid.decomposition import COMPONENTS, estimate, halves

N = 1200


def embedded(f, seed=0, n=N, noise=0.1):
    """Two bits, each as three noisy coordinates, and a label made of them."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, (2, n))
    x1, x2 = (bit[:, None] + noise * rng.normal(size=(n, 3)) for bit in (a, b))
    return x1, x2, f(a, b)


GATES = {
    "xor": (lambda a, b: a ^ b, [0, 0, 0, 1]),
    "and": (lambda a, b: a & b, [0.311, 0, 0, 0.5]),
    "x1": (lambda a, b: a, [0, 1, 0, 0]),
    "both": (lambda a, b: 2 * a + b, [0, 1, 1, 0]),
}


@pytest.mark.parametrize("name", GATES)
def test_gates_in_noise_are_found(name):
    f, expected = GATES[name]
    found = pid_quantised(*embedded(f), clusters=2, nulls=0)
    np.testing.assert_allclose([getattr(found.pid, c) for c in COMPONENTS], expected, atol=0.06)


def test_a_copy_is_redundant():
    x1, _, y = embedded(lambda a, b: a)
    assert pid_quantised(x1, 2 - x1, y, clusters=2, nulls=0).redundant.value == pytest.approx(1, abs=0.02)


def test_of_discrete_sources_it_is_the_mean_of_brojas_of_the_two_halves():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 600))
    y = (a + b > rng.integers(0, 5, 600)).astype(int)
    found = pid_quantised(a, b, y, clusters=5, nulls=0, seed=4)
    apart = []
    for rows in halves(y, 4):
        counts = np.zeros((3, 3, 2))
        np.add.at(counts, (a[rows], b[rows], y[rows]), 1)
        apart.append(broja(counts, normalise=True))
    for c in COMPONENTS:
        assert getattr(found, c).value == pytest.approx(np.mean([getattr(p, c) for p in apart]), abs=1e-6)


def test_centres_do_not_come_from_the_examples_that_are_counted():
    """Examples far away in one half get a centre only from that half."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = rng.integers(0, 2, 200)
    first = halves(y, 0)[0]
    told = x.copy()
    told[first] = 0.01 * x[first] + 100 * y[first, None]  # y is plain in the first half only
    found = pid_quantised(told, x, y, clusters=2, nulls=0)
    assert found.pid.information1 < 0.2  # centres of its own would tell the first half's labels: at least 0.5


def test_the_interval_is_as_wide_as_results_of_new_data_spread():
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        a, b = rng.integers(0, 2, (2, 600))
        y = (a & b) ^ (rng.random(600) < 0.1)
        found.append(pid_quantised(a, b, y, clusters=2, nulls=0, draws=200, seed=seed))
    for c in ("redundant", "synergy"):
        parts = [getattr(one, c) for one in found]
        widths = np.mean([(p.high - p.low) / 3.92 for p in parts])
        assert widths == pytest.approx(np.std([p.value for p in parts]), rel=0.4)


def test_permuted_labels_show_the_bias_of_counting_and_noise_does_not_exceed_it():
    rng = np.random.default_rng(1)
    x1, x2 = rng.normal(size=(2, N, 2))
    found = pid_quantised(x1, x2, rng.integers(0, 2, N), clusters=6, nulls=20)
    assert found.null_mean["synergy"] == pytest.approx(36 / (N * np.log(2)), rel=0.5)
    assert all(p > 0.05 for p in found.p_value.values())
    told = pid_quantised(*embedded(lambda a, b: a ^ b, noise=0.3), clusters=6, nulls=20)
    assert told.p_value["synergy"] == pytest.approx(1 / 21)
    assert told.synergy.value > told.null_mean["synergy"] + 10 * told.null_spread["synergy"]


def test_it_follows_from_its_seed_and_takes_tensors_and_any_labels():
    x1, x2, y = embedded(lambda a, b: a & b, noise=0.5, n=300)
    found = pid_quantised(x1, x2, y, 3, nulls=2, seed=3)
    names = np.array(["no", "yes"])[y]
    again = pid_quantised(torch.tensor(x1), torch.tensor(x2).reshape(300, 1, 3), names[:, None], 3, nulls=2, seed=3)
    assert again == found
    assert pid_quantised(x1, x2, y, 3, nulls=2, seed=5) != found


def test_the_summary_of_nulls():
    value = Estimate(0.5, 0.4, 0.6, 10)
    null = tuple(PID(0.0, 0.1, 0.5, s) for s in (0.2, 0.4, 0.6))
    found = PIDEstimate(value, value, value, value, null)
    assert found.null_mean == pytest.approx({"redundant": 0, "unique1": 0.1, "unique2": 0.5, "synergy": 0.4})
    assert found.null_spread["synergy"] == pytest.approx(0.2)
    assert found.p_value == {"redundant": 0.25, "unique1": 0.25, "unique2": 1.0, "synergy": 0.5}
    assert found.pid == PID(0.5, 0.5, 0.5, 0.5)
    assert str(found).splitlines() == [
        "bits      value and interval       null of 3 permutations (p is at least 0.250)",
        "redundant 0.500 [0.400, 0.600]     0.000 ± 0.000   p 0.250",
        "unique1   0.500 [0.400, 0.600]     0.100 ± 0.000   p 0.250",
        "unique2   0.500 [0.400, 0.600]     0.500 ± 0.000   p 1.000",
        "synergy   0.500 [0.400, 0.600]     0.400 ± 0.200   p 0.500",
    ]
    none = PIDEstimate(value, value, value, value, ())
    assert np.isnan(none.null_mean["synergy"])
    assert none.p_value["synergy"] == 1.0
    assert str(none).endswith("none")
    assert "at least" not in str(none)


@pytest.mark.parametrize("value", [Estimate(np.nan, np.nan, np.nan, 10), Estimate(0.5, 0.4, 0.6, 10)])
def test_what_is_not_a_number_has_no_p(value):
    bad = PIDEstimate(value, value, value, value, (PID(0.0, 0.0, 0.0, 0.1), PID(0.0, 0.0, 0.0, np.nan)))
    assert np.isnan(bad.p_value["synergy"])
    assert np.isnan(bad.p_value["redundant"]) == np.isnan(value.value)


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


def test_a_rare_class_has_a_value_and_a_null():
    x1, x2, y = embedded(lambda a, b: a & b, n=200)
    y[:4] = 2
    for seed in range(5):
        found = pid_quantised(x1, x2, y, clusters=2, nulls=3, seed=seed)
        assert np.isfinite([getattr(one, c) for one in (found.pid, *found.null) for c in COMPONENTS]).all()


def test_labels_are_permuted_within_each_half():
    """A half of only zeros for its permutations would tell nothing at all."""
    y = np.arange(40) % 2
    seen = []
    parts = halves(y, 0)

    def measured(labels, number):
        seen.append(labels)
        return {c: np.zeros(40) for c in COMPONENTS}

    estimate(measured, y, parts, 8, 0, 0.95, 10)
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
        (
            (X, X, np.array(["a", "b"])[(np.arange(100) < 3).astype(int)]),
            {},
            "Class 'b' has 3 examples, and at least 4",
        ),
        ((X, X, Y), {"clusters": 1}, "at least 2 clusters; got clusters=1"),
        ((X, X, Y), {"clusters": 30}, "at least 120 examples; got 100"),
        ((X, X, Y), {"nulls": -1}, "0 or more; got -1"),
    ],
)
def test_mistakes_get_a_sentence(arguments, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        pid_quantised(*arguments, **settings)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ImportError, match=r"needs scikit-learn: pip install synib\[audit\]"):
        pid_quantised(X, X, Y)
