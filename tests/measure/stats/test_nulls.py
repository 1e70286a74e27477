"""Permutations of labels, by rows and by groups."""

import numpy as np
import pytest

from synib.measure.stats import p_value, permutations


def test_rows_are_permuted_within_their_parts():
    labels, parts = np.arange(20) % 4, [np.arange(8), np.arange(8, 20)]
    drawn = list(permutations(labels, parts, 50, 0))
    assert len({tuple(one) for one in drawn}) > 40
    assert all(sorted(one[rows]) == sorted(labels[rows]) for one in drawn for rows in parts)


def test_labels_of_whole_groups_change_places_where_each_group_has_one():
    group = np.repeat([3, 0, 2, 1, 4, 5], [2, 5, 3, 4, 1, 6])
    labels = np.array([0, 1, 1, 0, 2, 0])[group]
    drawn = list(permutations(labels, [np.arange(21)], 200, 0, group))
    assert all(len(np.unique(one[group == g])) == 1 for one in drawn for g in range(6))
    of_groups = {tuple(one[group == g][0] for g in range(6)) for one in drawn}
    assert all(sorted(one) == [0, 0, 0, 1, 1, 2] for one in of_groups)
    assert len(of_groups) > 40  # of 60


def test_other_labels_change_places_within_their_group_and_with_groups_of_the_same_size():
    group = np.repeat([0, 1, 2], [4, 4, 5])
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0])
    drawn = list(permutations(labels, [np.arange(13)], 300, 0, group))
    assert all(one[group == 2].sum() == 2 for one in drawn)
    assert {one[group == 0].sum() for one in drawn} == {1, 4}
    assert {int(np.argmax(one[group == 0])) for one in drawn if one[group == 0].sum() == 1} == {0, 1, 2, 3}


def test_rows_in_any_order_and_parts_of_whole_groups_are_fine():
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(8), 5))
    labels = (group % 2 == 0).astype(int)
    parts = [np.flatnonzero(group < 4), np.flatnonzero(group >= 4)]
    for one in permutations(labels, parts, 20, 0, group):
        assert all(len(np.unique(one[group == g])) == 1 for g in range(8))
        assert all(one[rows].sum() == labels[rows].sum() for rows in parts)


@pytest.mark.parametrize("kind", ["one label each", "several labels"])
def test_where_groups_are_all_there_is_small_p_values_are_as_rare_as_they_say(kind):
    """A feature and labels of groups, independent of each other: by rows nearly every set would seem related."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(16), 10)
    found = {True: [], False: []}
    for seed in range(200):
        feature = rng.normal(size=16)[group] + 0.3 * rng.normal(size=160)
        tendency = rng.normal(size=16)[group]
        noise = 0.0 if kind == "one label each" else rng.normal(size=160)
        labels = (tendency + noise > 0).astype(int)

        def related(y, feature=feature):
            return abs(feature[y == 1].mean() - feature[y == 0].mean()) if 0 < y.sum() < 160 else 0.0

        for by_group in (True, False):
            null = permutations(labels, [np.arange(160)], 39, seed, group if by_group else None)
            found[by_group].append(p_value(related(labels), [related(y) for y in null]))
    p = np.array(found[True])
    assert np.mean(p <= 0.05) <= 0.09
    assert 0.35 <= np.median(p) <= 0.65
    assert np.mean(np.array(found[False]) <= 0.05) > 0.25


def test_a_p_value_counts_the_value_itself():
    assert p_value(1.0, [0.0, 0.5, 1.0, 2.0]) == 3 / 5
    assert np.isnan(p_value(1.0, [np.nan]))
