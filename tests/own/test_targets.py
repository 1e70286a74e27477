"""Targets: classes, ordered classes, several labels a row, numbers; each says how it was read."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import synib
from synib.own.table import read

N = 30
RNG = np.random.default_rng(0)
X = {"image": RNG.normal(size=(N, 3)).astype(np.float32), "text": RNG.normal(size=(N, 2)).astype(np.float32)}
FLAGS = np.stack([np.arange(N) % 2, np.arange(N) % 3 == 0, np.arange(N) % 5 == 0], 1).astype(int)
ANIMALS = np.array(["cat", "dog", "cow"])
TEXTS = [";".join(ANIMALS[row.astype(bool)]) for row in FLAGS]


def save(tmp_path, **columns):
    np.savez(tmp_path / "a.npz", **X, **columns)
    return tmp_path / "a.npz"


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32])
def test_an_array_of_0_and_1_with_a_column_for_each_label_is_multilabel(tmp_path, dtype):
    table = read(save(tmp_path, label=FLAGS.astype(dtype)))
    assert table.kind == "multilabel"
    assert table.classes == ("0", "1", "2")
    assert table.target.dtype == np.int64
    assert (table.target == FLAGS).all()
    assert set(table.modalities) == {"image", "text"}


def test_numbered_flags_are_labels(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(
            [*(f"image_{i}" for i in range(3)), *(f"text_{i}" for i in range(2)), "label_0", "label_1", "label_2"]
        )
        rows.writerows([*i, *t, *f] for i, t, f in zip(X["image"], X["text"], FLAGS, strict=True))
    for asked in ({}, {"target": "label"}, {"task": "multilabel"}):
        table = read(path, **asked)
        assert (table.kind, table.classes) == ("multilabel", ("label_0", "label_1", "label_2"))
        assert (table.target == FLAGS).all()
        assert table.columns == {"image": "image", "text": "text"}


@pytest.mark.parametrize("mark", [";", "|", ","])
def test_texts_with_separators_are_labels_when_asked_for(tmp_path, mark):
    label = np.array([text.replace(";", f" {mark} ") for text in TEXTS])
    path = save(tmp_path, label=label)
    table = read(path, task="multilabel")
    assert (table.kind, table.classes) == ("multilabel", ("cat", "cow", "dog"))
    assert (table.target == FLAGS[:, [0, 2, 1]]).all()
    assert f"The labels of a row are separated by {mark!r}." in table.notes
    empty = [note for note in table.notes if "so no label is assigned there" in note]
    assert len(empty) == 1
    assert empty[0].startswith("label is empty in rows 2, 4, 8")
    plain = read(path)
    assert plain.kind == "classification"
    assert len(plain.target) == sum(map(bool, TEXTS))  # without the task an empty text is a missing target
    assert any("use --task multilabel" in note for note in plain.notes) == (mark != ",")


def test_labels_that_no_row_or_every_row_has_are_left_out_and_named(tmp_path):
    more = np.column_stack([FLAGS, np.zeros(N, int), np.ones(N, int)])
    table = read(save(tmp_path, label=more))
    assert table.classes == ("0", "1", "2")
    assert "Labels left out, because no row has them: 3." in table.notes
    assert "Labels left out, because every row has them: 4." in table.notes
    with pytest.raises(ValueError, match="label has 1 label that some rows have and others do not; at least two"):
        read(save(tmp_path, label=more[:, [0, 3, 4]]))


def test_several_numbers_a_row_that_are_not_0_and_1_are_refused(tmp_path):
    wrong = FLAGS.copy()
    wrong[7, 1] = 2
    with pytest.raises(ValueError, match=r"read as labels, which must be 0 or 1; row 7 \(from 0\) has other values"):
        read(save(tmp_path, label=wrong))
    with pytest.raises(ValueError, match="target must be a column with one value per row"):
        read(save(tmp_path, label=FLAGS), task="classification")
    with pytest.raises(ValueError, match="label must hold texts of labels such as 'cat;dog'"):
        read(save(tmp_path, label=FLAGS[:, 0]), task="multilabel")
    with pytest.raises(ValueError, match="has 1,001 labels; at most 1,000"):
        read(save(tmp_path, label=np.zeros((N, 1001), bool)))


def test_a_class_that_is_named_like_a_missing_value_is_pointed_out(tmp_path):
    label = np.array(["yes", "no", "NA"])[np.arange(N) % 3]
    note = "label has the class NA: if it stands for a missing value, leave those cells empty."
    assert note in read(save(tmp_path, label=label)).notes
    assert not any(
        "missing" in other for other in read(save(tmp_path, label=np.where(label == "NA", "none", label))).notes
    )


def test_a_target_of_numbers_names_the_option_that_makes_it_classes(tmp_path):
    note = "label is treated as a number (regression); use --task classification to treat its values as classes."
    assert note in read(save(tmp_path, label=np.linspace(0.1, 2.0, N))).notes


def test_whole_numbers_are_ordered_classes_when_asked_for(tmp_path):
    stars = np.arange(N) % 4 * 10 - 10
    table = read(save(tmp_path, label=stars), task="ordinal")
    assert (table.kind, table.classes) == ("ordinal", ("-10", "0", "10", "20"))
    assert (table.target == np.arange(N) % 4).all()
    assert "label is treated as 4 ordered classes: -10 < 0 < 10 < 20." in table.notes


def test_texts_are_ordered_as_the_user_says(tmp_path):
    level = np.array(["low", "mid", "high"])[np.arange(N) % 3]
    path = save(tmp_path, label=level)
    for task in ("auto", "ordinal"):
        table = read(path, task=task, order=["low", "mid", "high", "extreme"])
        assert (table.kind, table.classes) == ("ordinal", ("low", "mid", "high"))
        assert (table.target == np.arange(N) % 3).all()
        assert "No row has the class extreme, so it is left out." in table.notes
    with pytest.raises(ValueError, match=r"holds texts \(high, low, mid\), whose order is unknown"):
        read(path, task="ordinal")
    with pytest.raises(ValueError, match="label also has mid, which the order low, high does not name"):
        read(path, order=["low", "high"])
    for wrong in ("low", ["low", "low"], 3):
        with pytest.raises(ValueError, match="order must be a list of different class names, lowest first"):
            read(path, order=wrong)
    with pytest.raises(ValueError, match="An order of classes needs task='ordinal'"):
        read(path, order=["low", "mid", "high"], task="regression")
    with pytest.raises(
        ValueError, match="task must be 'auto', 'classification', 'ordinal', 'multilabel' or 'regression'; got 'x'"
    ):
        read(path, task="x")


def test_the_kind_follows_from_the_target_for_tables_made_by_hand(table):
    assert table().kind == "classification"
    assert table(classes=0).kind == "regression"
    assert replace(table(), kind="ordinal").kind == "ordinal"
    some = table()
    assert replace(some, target=some.target.astype(float), classes=()).kind == "regression"
    assert replace(some, target=np.eye(2, dtype=int)[some.target]).kind == "multilabel"


def test_a_table_of_arrays_names_its_classes_and_labels():
    named = synib.Table.from_arrays(X, np.arange(N) % 2, classes=["no", "yes"])
    assert (named.kind, named.classes) == ("classification", ("no", "yes"))
    labels = synib.Table.from_arrays(X, FLAGS, classes=ANIMALS)
    assert (labels.kind, labels.classes) == ("multilabel", ("cat", "dog", "cow"))
    level = np.array(["low", "mid", "high"])[np.arange(N) % 3]
    ordered = synib.Table.from_arrays(X, level, task="ordinal", classes=["low", "mid", "high"])
    assert (ordered.kind, ordered.classes) == ("ordinal", ("low", "mid", "high"))
    with pytest.raises(ValueError, match="there are 2 names for 3 labels of target"):
        synib.Table.from_arrays(X, FLAGS, classes=["cat", "dog"])
