"""Accuracy where every single modality is wrong, and that of a control without cross-modal information."""

import numpy as np

from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.row_scores import row_scores
from synib.own.subset import ShuffledRecipe, subset
from synib.report.audit import page, summary


def test_fusions_that_know_the_synergy_are_above_the_control_and_the_page_shows_both(audited):
    found = audited.subset
    unimodal = [row_scores(audited.outcome, f"unimodal-{name}")[0] for name in "ab"]
    assert found.size == int(((unimodal[0] == 0) & (unimodal[1] == 0)).sum()) > 20
    assert set(found.accuracy) == {*found.above, "control"}
    assert found.accuracy["control"].high < found.accuracy[audited.synib].low
    assert found.above[audited.synib].low > 0.2
    assert found.accuracy["vanilla"].n == found.size
    rows = summary(audited)
    assert {row["method"] for row in rows if row["metric"] == "subset_accuracy"} == {*found.accuracy}
    (shown,) = [t for t in page(audited, rows, "x", {}).tables if "every single modality is wrong" in t.title]
    assert list(shown.rows)[-1] == "control"
    assert f"{found.size} of 160 rows" in shown.note


def test_the_control_is_trained_on_rows_whose_modalities_are_of_others_of_the_same_class(table):
    made = table(n=90)
    recipe = ShuffledRecipe(made, folds(made, 3))
    (cell, *_) = recipe.cells("vanilla", 1)
    plain, shuffled = super(ShuffledRecipe, recipe).data(cell), recipe.data(cell)
    assert shuffled.validation is plain.validation
    moved = 0
    for name in "ab":
        before, after = plain.train.modalities[name], shuffled.train.modalities[name]
        moved += (before != after).any(1).sum().item()
        for label in (0, 1):
            rows = plain.train.target == label
            assert sorted(before[rows].tolist()) == sorted(after[rows].tolist())
    assert moved > len(plain.train)
    assert shuffled.train.target.equal(plain.train.target)


def test_few_rows_are_counted_and_not_judged_and_numbers_have_no_subset(table):
    methods = ["unimodal-a", "unimodal-b", "vanilla"]
    made = table(n=90, kind="unique")
    found = subset(train(made, folds(made, 3), methods, budget=1, epochs=20, device="cpu"), ["vanilla"], None)
    assert found.size < 10
    assert found.accuracy == found.above == {}
    made = table(n=60, classes=0)
    made.target[:] += np.random.default_rng(0).normal(size=60)
    outcome = train(made, folds(made, 3), methods, budget=1, epochs=1, device="cpu")
    assert subset(outcome, ["vanilla"], None) is None
