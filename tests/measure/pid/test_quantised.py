"""PID of clusters: what is found, its bias and its interval."""

import sys

import numpy as np
import pytest
import torch

from synib.measure.pid import broja, pid_quantised
from synib.measure.pid.decomposition import COMPONENTS
from synib.measure.stats import halves

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
        found.append(pid_quantised(a, b, y, clusters=2, nulls=0, seed=seed))
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


def test_noise_of_groups_is_not_above_its_null_and_what_groups_say_is():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(24), 8)
    p = []
    for seed in range(6):
        x1, x2 = rng.normal(size=(2, 24, 2))[:, group]
        y = rng.permutation(np.arange(24) % 2)[group]
        p.append(pid_quantised(x1, x2, y, 3, nulls=9, groups=group, seed=seed).p_value["synergy"])
    assert np.mean(np.array(p) == 0.1) <= 0.5  # each was 0.1 without groups
    assert pid_quantised(x1, x2, y, 3, nulls=9, seed=0).p_value["synergy"] == 0.1
    a, b = np.arange(24) % 2, np.arange(24) // 2 % 2
    told = pid_quantised(a[group], b[group], (a ^ b)[group], 2, nulls=9, groups=rng.permutation(1000)[group])
    assert told.p_value["synergy"] == 0.1
    assert told.synergy.value > 0.9


def test_it_follows_from_its_seed_and_takes_tensors_and_any_labels():
    x1, x2, y = embedded(lambda a, b: a & b, noise=0.5, n=300)
    found = pid_quantised(x1, x2, y, 3, nulls=2, seed=3)
    names = np.array(["no", "yes"])[y]
    again = pid_quantised(torch.tensor(x1), torch.tensor(x2).reshape(300, 1, 3), names[:, None], 3, nulls=2, seed=3)
    assert again == found
    assert pid_quantised(x1, x2, y, 3, nulls=2, seed=5) != found


def test_a_rare_class_has_a_value_and_a_null():
    x1, x2, y = embedded(lambda a, b: a & b, n=200)
    y[:4] = 2
    for seed in range(5):
        found = pid_quantised(x1, x2, y, clusters=2, nulls=3, seed=seed)
        assert np.isfinite([getattr(one, c) for one in (found.pid, *found.null) for c in COMPONENTS]).all()


X, Y = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 2


def test_a_class_too_rare_for_both_halves_gets_a_sentence():
    names = np.array(["a", "b"])[(np.arange(100) < 3).astype(int)]
    with pytest.raises(ValueError, match="Class 'b' has 3 examples, but at least 4"):
        pid_quantised(X, X, names)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ImportError, match=r"needs scikit-learn: pip install 'synib\[audit\]'"):
        pid_quantised(X, X, Y)
