"""Folds: classes spread evenly, groups together, the same for the same seed."""

import numpy as np
import pytest

from synib.measure.stats import assign, assign_groups, deal


def test_every_class_is_dealt_out_evenly_and_the_seed_decides():
    y = np.repeat(np.arange(4), [50, 7, 3, 21])
    fold = assign(len(y), 5, 0, y)
    counts = np.array([np.bincount(y[fold == k], minlength=4) for k in range(5)])
    assert np.ptp(counts, 0).max() <= 1
    assert np.ptp(counts.sum(1)) <= 1
    assert np.array_equal(fold, assign(len(y), 5, 0, y))
    assert not np.array_equal(fold, assign(len(y), 5, 1, y))


def test_groups_stay_together_in_folds_of_nearly_one_size():
    group = np.repeat(np.arange(12), [1, 9, 3, 5, 5, 2, 8, 4, 6, 7, 2, 8])
    fold = assign(len(group), 4, 0, groups=group)
    assert all(len(np.unique(fold[group == g])) == 1 for g in range(12))
    assert np.ptp(np.bincount(fold)) <= 3
    assert len(np.unique(fold)) == 4


def test_groups_of_one_class_each_are_spread_over_the_folds():
    group = np.repeat(np.arange(20), 5)
    y = group % 2
    fold = assign(len(y), 5, 0, y, group)
    assert all(np.bincount(y[fold == k]).tolist() == [10, 10] for k in range(5))


@pytest.mark.parametrize("seed", range(3))
def test_where_there_is_one_class_a_group_goes_to_the_smallest_fold(seed):
    rng = np.random.default_rng(seed)
    sizes, order, folds = rng.integers(1, 30, 40), rng.permutation(40), 6
    held, expected = np.zeros(folds, int), np.zeros(40, int)
    for group in order:
        expected[group] = held.argmin()
        held[expected[group]] += sizes[group]
    assert np.array_equal(assign_groups(sizes[:, None].astype(float), order, folds), expected)


def test_rows_are_dealt_out_in_the_order_given():
    assert deal(np.array([2, 0, 1, 3]), 2).tolist() == [1, 0, 0, 1]
