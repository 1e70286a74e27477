"""What is reached where every single modality is wrong, and by a control that knows no synergy."""

from dataclasses import replace

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.interaction import goodness
from synib.own.subset import Mixed, subset
from synib.own.table import Table
from synib.report.audit import page, summary

N = 240


def table(kind="synergy", classes=("no", "yes"), seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(N, 2)), rng.normal(size=(N, 2))
    y = (a[:, 0] * b[:, 0] > 0 if kind == "synergy" else a[:, 0] > 0).astype(np.int64)
    there = np.ones(N, dtype=bool)
    x = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
    return Table(x, {"a": there, "b": there}, y, classes, None, None, {}, "mine.npz", ())


@pytest.fixture(scope="module")
def found():
    pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
    return audit(table(), k=3, budget=1, epochs=40)


def test_fusions_that_know_the_synergy_are_above_the_control(found):
    there = found.subset
    alone = [goodness(found.outcome, f"unimodal-{name}")[0] for name in "ab"]
    assert there.size == int(((alone[0] == 0) & (alone[1] == 0)).sum()) > 20
    assert set(there.accuracy) == {*there.above, "control"}
    assert there.accuracy["control"].high < there.accuracy[found.synib].low
    assert there.above[found.synib].low > 0.2
    assert there.accuracy["vanilla"].n == there.size


def test_the_page_shows_them_beside_the_control(found):
    rows = summary(found)
    assert {row["method"] for row in rows if row["metric"] == "subset_accuracy"} == {*found.subset.accuracy}
    (shown,) = [t for t in page(found, rows, "x", {}).tables if "every single modality is wrong" in t.title]
    assert list(shown.rows)[-1] == "control"
    assert f"{found.subset.size} of {N} rows" in shown.note


def test_the_control_is_trained_on_rows_whose_modalities_are_of_others_of_the_same_class():
    made = table()
    parts = folds(made, 3)
    recipe = Mixed(made, parts)
    (cell, *_) = recipe.cells("vanilla", 1)
    plain, mixed = super(Mixed, recipe).data(cell), recipe.data(cell)
    assert mixed.validation is plain.validation
    moved = 0
    for name in "ab":
        before, after = plain.train.modalities[name], mixed.train.modalities[name]
        moved += (before != after).any(1).sum().item()
        for label in (0, 1):
            mine = plain.train.target == label
            assert sorted(before[mine].tolist()) == sorted(after[mine].tolist())
    assert moved > len(plain.train)
    assert mixed.train.target.equal(plain.train.target)


def test_few_rows_are_counted_and_not_judged():
    made = table("unique")
    outcome = train(made, folds(made, 3), ["unimodal-a", "unimodal-b", "vanilla"], budget=1, epochs=30)
    there = subset(outcome, ["vanilla"], None)
    assert there.size < 10
    assert there.accuracy == there.above == {}


def test_numbers_have_none():
    made = replace(table(), target=np.random.default_rng(0).normal(size=N), classes=())
    outcome = train(made, folds(made, 3), ["unimodal-a", "unimodal-b", "vanilla"], budget=1, epochs=1)
    assert subset(outcome, ["vanilla"], None) is None
