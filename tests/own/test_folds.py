"""Folds are disjoint, complete and stratified, with every group in one part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synib.own.folds import Fold, folds, held_out, sample, strata
from synib.own.table import Table


def table(target, classes=2, group=None, split=None, present=None):
    target = np.asarray(target)
    n = len(target)
    everywhere = np.ones(n, dtype=bool)
    return Table(
        modalities={"a": np.zeros((n, 2), np.float32), "b": np.zeros((n, 2), np.float32)},
        present={"a": everywhere, "b": everywhere} | (present or {}),
        target=target.astype(np.int64 if classes else np.float64),
        classes=tuple(f"class {c}" for c in range(classes)),
        split=None if split is None else np.array(split),
        group=None if group is None else np.array(group),
    )


@st.composite
def ungrouped(draw):
    k = draw(st.integers(3, 6))
    each = draw(st.lists(st.integers(3, 30), min_size=2, max_size=4).filter(lambda each: sum(each) >= k))
    target = draw(st.permutations([c for c, n in enumerate(each) for _ in range(n)]))
    return target, len(each), k, draw(st.integers(0, 5))


@given(ungrouped())
def test_every_row_is_tested_once_a_fifth_of_the_others_validates_and_classes_are_even_up_to_a_row(given):
    target, classes, k, seed = given
    made = folds(table(target, classes), k, seed)
    assert len(made) == k
    for fold in made:
        rest, validating = (
            np.bincount(np.asarray(target)[rows], minlength=classes)
            for rows in (np.concatenate([fold.train, fold.validation]), fold.validation)
        )
        assert (abs(validating - rest / min(5, rest.sum())) <= 1).all()
    counts = np.array([np.bincount(np.asarray(target)[f.test], minlength=classes) for f in made])
    assert (np.ptp(counts, axis=0) <= 1).all()
    assert np.ptp(counts.sum(1)) <= 1
    assert np.array_equal(np.sort(np.concatenate([f.test for f in made])), np.arange(len(target)))
    for fold in made:
        assert np.array_equal(np.sort(np.concatenate(fold)), np.arange(len(target)))
        assert all(len(rows) and (np.diff(rows) > 0).all() for rows in fold if len(target) >= k)


@st.composite
def grouped(draw):
    k = draw(st.integers(3, 5))
    sizes = draw(st.lists(st.integers(1, 8), min_size=3 * k, max_size=40))
    group = [f"g{i}" for i, n in enumerate(sizes) for _ in range(n)]
    bits = draw(st.lists(st.integers(0, 1), min_size=len(group), max_size=len(group)))
    return bits, group, k, draw(st.integers(0, 3))


@given(grouped())
def test_no_group_is_in_two_parts_and_no_part_is_empty(given):
    target, group, k, seed = given
    try:
        made = folds(table(target, 2, group), k, seed)
    except ValueError as e:  # a class in too few groups
        assert "none of them among the training rows" in str(e)  # noqa: PT017
        return
    for fold in made:
        assert all(len(rows) for rows in fold)
        of = [set(np.array(group)[rows]) for rows in fold]
        assert sum(map(len, of)) == len(set(group))
        assert np.array_equal(np.sort(np.concatenate(fold)), np.arange(len(group)))


@pytest.mark.parametrize("seed", range(2))
def test_groups_are_dealt_so_that_sizes_and_classes_are_near(seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(60), rng.integers(5, 30, 60))
    rate = rng.random(60)[group]  # a speaker's own share of class 1
    target = (rng.random(len(group)) < rate).astype(int)
    made = folds(table(target, 2, group), 5, seed)
    sizes = np.array([len(f.test) for f in made]) / len(group)
    shares = np.array([target[f.test].mean() for f in made])
    assert np.abs(sizes - 0.2).max() < 0.02
    assert np.abs(shares - target.mean()).max() < 0.04


def test_numbers_are_dealt_from_low_to_high():
    target = np.random.default_rng(0).normal(size=200)
    made = folds(table(target, 0), 5)
    means = [target[f.test].mean() for f in made]
    assert np.ptp(means) < 0.35
    bands = strata(table(target, 0))
    assert np.bincount(bands).tolist() == [40] * 5
    assert (np.diff([target[bands == b].mean() for b in range(5)]) > 0).all()
    assert all((np.bincount(bands[f.test]) == 8).all() for f in made)


def test_a_split_column_is_one_fold_as_it_stands():
    split = ["train"] * 6 + ["validation"] * 3 + ["test"] * 3
    made = folds(table([0, 1] * 6, split=split))
    assert [rows.tolist() for rows in made[0]] == [[*range(6)], [6, 7, 8], [9, 10, 11]]
    assert len(made) == 1
    assert isinstance(made[0], Fold)


@pytest.mark.parametrize("with_groups", [False, True])
def test_without_validation_rows_a_part_of_the_training_rows_validates(with_groups):
    target, split = [0, 1] * 30, ["train"] * 40 + ["test"] * 20
    group = [f"g{i // 2}" for i in range(60)] if with_groups else None
    (fold,) = folds(table(target, group=group, split=split), k=5)
    assert fold.test.tolist() == [*range(40, 60)]
    assert len(fold.validation) == 8
    assert np.array_equal(np.sort(np.concatenate(fold[:2])), np.arange(40))
    if group is not None:
        assert not {group[i] for i in fold.train} & {group[i] for i in fold.validation}


def test_rows_can_be_cut_in_two_for_a_last_fit():
    one = table([0, 1] * 30)
    train, validation = held_out(one, np.arange(10, 50), 4)
    assert len(validation) == 10
    assert np.array_equal(np.sort(np.concatenate([train, validation])), np.arange(10, 50))


ROWS = [0, 1] * 10


@pytest.mark.parametrize(
    ("made", "k", "said"),
    [
        (table([0, 1]), 5, "5 folds need at least 5 rows; there are 2."),
        (table(ROWS), 2, "k must be a whole number of at least 3; got 2."),
        (table(ROWS), 2.5, "k must be a whole number of at least 3; got 2.5."),
        (
            table(ROWS, group=["x", "y", "z", "u"] * 5),
            5,
            "5 folds need at least 5 groups, since a group stays in one fold",
        ),
        (
            table([0] * 18 + [1, 1]),
            5,
            "Class 'class 1' has 2 rows, none of them among the training rows of fold 4 of 5: merge it",
        ),
        (table([0] * 16 + [1] * 4, group=[f"g{i // 4}" for i in range(20)]), 5, "Class 'class 1' has 4 rows of 1"),
        (table(ROWS, split=["train"] * 20), 5, "The split column has no test rows; it has train."),
        (table(ROWS, split=["test", "validation"] * 10), 5, "The split column has no train rows; it has test"),
        (
            table(ROWS, split=["train"] * 8 + ["validation"] * 4 + ["test"] * 8, group=["x"] * 9 + ["y"] * 11),
            5,
            "Group 'x' is in two parts of the split column, train and validation. Move its rows into one part",
        ),
        (
            table(ROWS, split=["train"] * 10 + ["test"] * 10, present={"a": np.arange(20) >= 10}),
            5,
            "No training row of the split column has 'a': leave that modality out.",
        ),
        (table([0] * 12 + [1] * 8, split=["train"] * 8 + ["validation"] * 4 + ["test"] * 8), 5, "Class 'class 1' has"),
    ],
)
def test_what_cannot_be_is_one_sentence(made, k, said):
    with pytest.raises(ValueError, match=said):
        folds(made, k)


def test_a_sample_has_every_class_in_its_share():
    labelled = table(np.repeat([0, 1, 2], [700, 250, 50]), 3)
    rows = np.arange(50, 1000)
    drawn = sample(labelled, rows, 190)
    assert np.bincount(labelled.target[drawn]).tolist() == [130, 50, 10]
    assert set(drawn) <= set(rows)
    assert sample(labelled, rows, 5000) is rows
