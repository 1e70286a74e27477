"""Accuracy where every single modality is wrong, and that of controls without cross-modal information."""

import numpy as np

from synib.own.evidence import Bench
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.metric import Metric
from synib.own.search_space import methods_of
from synib.own.subset import ShuffledRecipe, subset
from synib.report.audit import page, summary


def test_fusions_that_know_the_synergy_are_above_their_controls_and_the_page_shows_both(audited):
    found, synib = audited.subset, audited.synib
    predictions = [audited.outcome.methods[f"unimodal-{name}"].predictions[0, :, 0] > 0 for name in "ab"]
    wrong = [predicted != (audited.table.target == 1) for predicted in predictions]
    assert found.size == int((wrong[0] & wrong[1]).sum()) > 20
    assert set(found.accuracy) == set(found.control) == set(found.above) == {"vanilla", synib}
    assert found.control[synib].high < found.accuracy[synib].low
    assert found.above[synib].low > 0.2
    assert found.accuracy["vanilla"].n == found.size
    (shown,) = [
        t for t in page(audited, summary(audited), "x", {}).tables if "every single modality is wrong" in t.title
    ]
    assert list(shown.rows) == ["plain fusion", "SynIB"]
    assert f"{found.size} of 160 rows" in shown.note


def test_controls_see_modalities_of_other_rows_of_the_same_class_in_training_and_validation(table):
    made = table(n=90)
    recipe = ShuffledRecipe(made, folds(made, 3))
    (cell, *_) = recipe.cells("vanilla", 1)
    plain, shuffled = super(ShuffledRecipe, recipe).data(cell), recipe.data(cell)
    for before_split, after_split in ((plain.train, shuffled.train), (plain.validation, shuffled.validation)):
        moved = 0
        for name in "ab":
            before, after = before_split.modalities[name], after_split.modalities[name]
            moved += (before != after).any(1).sum().item()
            for label in (0, 1):
                rows = before_split.target == label
                assert sorted(before[rows].tolist()) == sorted(after[rows].tolist())
        assert moved > len(before_split)
        assert after_split.target.equal(before_split.target)


def test_there_is_no_subset_where_rows_are_few_where_nothing_beats_chance_and_for_numbers(table):
    few, noise, number = table(n=90, kind="unique"), table(n=90), table(n=60, classes=0)
    noise.target[:] = np.random.default_rng(0).integers(2, size=90)
    number.target[:] += np.random.default_rng(0).normal(size=60)
    for made, epochs in ((few, 20), (noise, 2), (number, 1)):
        outcome = train(made, folds(made, 3), methods_of(made, False), budget=1, epochs=epochs, device="cpu")
        assert subset(Bench(outcome, Metric(made), None), ["vanilla"], device="cpu") is None
