"""Halves, permutations and mistakes, the same for every estimator."""

import numpy as np
import pytest

from synib.measure.pid import pid_neural, pid_quantised
from synib.measure.pid.decomposition import COMPONENTS
from synib.measure.pid.estimate import estimate, in_halves
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

    estimate(measured, y, parts, np.concatenate(parts), 8, 0, 0.95)
    assert len({tuple(labels) for labels in seen}) == 9
    assert all(labels[rows].sum() == y[rows].sum() for labels in seen for rows in parts)


def counted_information(x, rows):
    """From labels to each row's share in the plug-in information of a feature of few values, as if it were synergy."""

    def measured(labels, number):
        joint = np.zeros((x.max() + 1, labels.max() + 1))
        np.add.at(joint, (x[rows], labels[rows]), 1 / len(rows))
        share = joint / (joint.sum(1, keepdims=True) * joint.sum(0) + 1e-300)
        information = np.log(share[x[rows], labels[rows]])
        return {c: information if c == "synergy" else np.zeros(len(rows)) for c in COMPONENTS}

    return measured


@pytest.mark.parametrize("varies", [False, True])
def test_where_groups_are_all_there_is_p_is_uniform_with_groups_and_smallest_without(varies):
    """Features and labels of groups, independent of each other; also with labels that vary within groups."""
    rng = np.random.default_rng(int(varies))
    group = np.repeat(np.arange(24), 10)
    p = {True: [], False: []}
    for seed in range(120):
        x = rng.integers(0, 4, 24)[group]
        tendency = rng.normal(size=24)[group] + (0.7 * rng.normal(size=240) if varies else 0.0)
        y = (tendency > np.median(tendency)).astype(int)
        for grouped in (True, False):
            parts, number = in_halves(y, seed, group if grouped else None)
            rows = np.concatenate(parts)
            found = estimate(counted_information(x, rows), y, parts, rows, 19, seed, 0.95, number)
            p[grouped].append(found.p_value["synergy"])
    assert np.mean(np.array(p[True]) <= 0.05) <= 0.1
    assert 0.35 <= np.mean(p[True]) <= 0.7
    assert np.mean(np.array(p[False]) <= 0.05) > 0.6


def test_groups_stay_in_one_half_and_intervals_are_over_groups():
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(20), 10))
    y = rng.integers(0, 2, 200)
    parts, number = in_halves(y, 0, np.array([f"g{g}" for g in group]))
    assert not set(group[parts[0]]) & set(group[parts[1]])
    assert abs(len(parts[0]) - len(parts[1])) <= 20
    held_out = np.concatenate(parts)
    luck = rng.normal(size=20)

    def measured(labels, number):
        return dict.fromkeys(COMPONENTS, luck[group[held_out]])

    by_group, by_row = (estimate(measured, y, parts, held_out, 0, 0, 0.95, g).synergy for g in (number, None))
    assert by_group.value == by_row.value
    assert by_group.high - by_group.low > 2.5 * (by_row.high - by_row.low)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (np.zeros(100), "needs at least 2 of them; got 1"),
        (np.arange(100) % 2, "one half has no example of some class"),
        (np.arange(50), r"the group of each of 100 examples; got shape \(50,\)"),
    ],
)
@pytest.mark.parametrize("pid", [pid_quantised, pid_neural])
def test_groups_that_cannot_be_halved_are_refused(pid, groups, says):
    with pytest.raises(ValueError, match=says):
        pid(X, X, np.arange(100) % 2, groups=groups)


X = np.random.default_rng(0).normal(size=(100, 2))
