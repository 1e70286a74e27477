"""What is said about the data before anything is trained."""

from dataclasses import replace

import numpy as np

from synib.own.data_checks import check
from synib.own.folds import Fold, folds
from synib.own.table import Table


def table(n=120, seed=0, **more):
    rng = np.random.default_rng(seed)
    there = np.ones(n, dtype=bool)
    x = {"a": rng.normal(size=(n, 3)).astype(np.float32), "b": rng.normal(size=(n, 2)).astype(np.float32)}
    return replace(Table(x, {"a": there, "b": there}, np.arange(n) % 2, ("no", "yes")), **more)


def said(one, parts=None):
    found = check(one, folds(one, 3) if parts is None else parts)
    return [f"{f.level}: {f.words}" for f in found]


def test_ordinary_data_have_facts_and_no_warnings():
    found = said(table())
    assert "fact: 120 rows of 2 modalities: a (3 numbers), b (2 numbers)." in found
    assert "fact: 2 classes: no 60, yes 60." in found
    assert not any(one.startswith("warning") for one in found)


def test_rare_and_few_classes_are_warned_of():
    few = np.zeros(120, dtype=np.int64)
    few[::6] = 1
    assert any("Fewer than 30 rows of yes" in one for one in said(table(target=few)))
    rare = np.zeros(2000, dtype=np.int64)
    rare[::30] = 1
    assert any("Less than 5% of the rows belong to yes" in one for one in said(table(2000, target=rare)))


def test_numbers_are_described():
    y = np.linspace(-1.0, 3.0, 120)
    assert "fact: The target is a number from -1 to 3, mean 1." in said(table(target=y, classes=()))


def test_missing_modalities_are_counted_and_a_pattern_that_tells_is_warned_of():
    some = np.arange(120) % 10 != 0
    found = said(table(present={"a": some, "b": np.ones(120, dtype=bool)}))
    assert any("12 rows (10%) lack a" in one for one in found)
    telling = (np.arange(120) % 2 == 0) | (np.arange(120) % 4 == 1)
    found = said(table(present={"a": telling, "b": np.ones(120, dtype=bool)}))
    assert any(one.startswith("warning: Whether a row has a depends on the class: 50% to 100%") for one in found)
    nothing = np.arange(120) != 7
    found = said(table(present={"a": nothing, "b": nothing}))
    assert any("1 rows have no modality at all, such as row 7" in one for one in found)


def test_columns_that_never_change_are_counted_in_rows_that_have_the_modality():
    one = table()
    a = one.modalities["a"].copy()
    a[:, 1] = 4.0
    a[3] = 0.0  # lacks it
    there = np.arange(120) != 3
    found = said(table(modalities={"a": a, "b": one.modalities["b"]}, present={"a": there, "b": one.present["b"]}))
    assert "fact: 1 of 3 numbers of a are the same in every row." in found
    same = np.ones_like(a)
    assert "warning: a is the same in every row, so it cannot help to predict anything." in said(
        table(modalities={"a": same, "b": one.modalities["b"]})
    )


def test_copies_on_both_sides_of_a_split_are_counted():
    one = table()
    x = {name: v.copy() for name, v in one.modalities.items()}
    for v in x.values():
        v[10] = v[50]
        v[11] = v[12]
    parts = [Fold(np.arange(0, 40), np.arange(40, 60), np.arange(60, 120))]
    assert any(
        f.startswith("fact: 2 rows are copies of others; none is on both") for f in said(table(modalities=x), parts)
    )
    once = {name: v.copy() for name, v in one.modalities.items()}
    for v in once.values():
        v[11] = v[12]
    assert any(
        f.startswith("fact: 1 row is a copy of another; none is on both") for f in said(table(modalities=once), parts)
    )
    parts = [Fold(np.arange(0, 40), np.arange(60, 120), np.arange(40, 60))]
    found = said(table(modalities=x), parts)
    assert any(f.startswith("warning: 1 tested row also occurs, with identical numbers") for f in found)


def test_rows_equal_in_one_modality_are_no_copies_and_minus_zero_is_zero():
    one = table()
    x = {name: v.copy() for name, v in one.modalities.items()}
    x["a"][10] = x["a"][50]
    assert not any("copies" in f for f in said(table(modalities=x)))
    for v in x.values():
        v[20], v[21] = 0.0, -0.0
    assert any("2 tested rows also occur" in f for f in said(table(modalities=x)))


def test_groups_on_both_sides_of_a_given_split_are_warned_of():
    group = np.array([f"g{i // 10}" for i in range(120)])
    assert "fact: 12 groups; none is on both sides of a split." in said(table(group=group))
    parts = [Fold(np.arange(0, 55), np.arange(55, 60), np.arange(60, 120))]
    assert not any(f.startswith("warning") for f in said(table(group=group), parts))
    parts = [Fold(np.arange(0, 45), np.arange(45, 65), np.arange(65, 120))]
    assert any(f.startswith("warning: 1 groups are on both sides") for f in said(table(group=group), parts))


def test_what_the_reader_noted_is_passed_on():
    assert "fact: Columns that are not used: id." in said(table(notes=("Columns that are not used: id.",)))


def test_almost_equal_rows_are_counted_too():
    one = table()
    rng = np.random.default_rng(0)
    x = {name: np.tile(v[:40], (3, 1)) + 1e-5 * rng.normal(size=v.shape) for name, v in one.modalities.items()}
    apart = [Fold(np.r_[0:20, 40:60, 80:100], np.r_[20:30, 60:70, 100:110], np.r_[30:40, 70:80, 110:120])]
    found = said(table(modalities=x), apart)
    assert any(
        f.startswith("fact: 80 rows are almost copies of others: in every modality, their distance") for f in found
    )
    found = said(table(modalities=x), [Fold(np.arange(40), np.arange(40, 80), np.arange(80, 120))])
    assert any("40 tested rows are that close to rows used for training or model selection" in f for f in found)


def test_labels_are_counted_one_by_one_and_so_are_rows_without_any():
    target = np.stack([np.arange(120) % 3 == 0, np.arange(120) % 2 == 0], 1).astype(int)
    there = {"a": target[:, 0] == 1, "b": np.ones(120, bool)}
    found = said(table(target=target, classes=("cat", "dog"), present=there))
    assert "fact: 2 labels: cat 40, dog 60." in found
    assert "fact: 40 rows have none of the labels." in found
    assert any(f.startswith("warning: Whether a row has a depends on the class: 33% to 100%") for f in found)


def test_few_groups_are_said_to_be_few():
    parts = [Fold(np.arange(40), np.arange(40, 80), np.arange(80, 120))]
    group = np.array(["x", "y", "z"])[np.arange(120) // 40]
    assert any(f.startswith("warning: There are only 3 groups:") for f in said(table(group=group), parts))
    group = np.array(["v", "w", "x", "y", "z", "q"])[np.arange(120) // 20]
    assert not any("only" in f for f in said(table(group=group), parts))


def test_what_a_warning_says_is_not_repeated_as_a_note():
    x = {"a": np.ones((60, 2)), "b": np.random.default_rng(0).normal(size=(60, 2))}
    words = said(Table.from_arrays(x, np.arange(60) % 2, groups=np.repeat(["s", "t", "u"], 20)))
    assert sum("a is the same in every row" in one for one in words) == 1
    assert sum("only 3 groups" in one for one in words) == 1
