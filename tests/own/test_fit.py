"""Fitting a model: what it is chosen on, what it must not see, and what it says of itself."""

import numpy as np
import pytest

from synib.own.crossfit import FREQUENCIES
from synib.own.fit import fit
from synib.own.fit_scores import sentences
from synib.own.saved import load

FAST = {"budget": 1, "epochs": 1, "device": "cpu", "baselines": False}


def test_synib_is_experts_for_classes_and_marginal_for_numbers_and_labels(table):
    assert fit(table(n=40), "synib", **FAST).method == "experts"
    model = fit(table(n=40, classes=0), "synib", **FAST)
    assert model.method == "synib-marginal"
    assert model.settings["draws"] == 16
    assert fit(table(n=40, kind="labels"), "synib", **FAST).method == "synib-marginal"


def test_rows_kept_for_testing_are_not_touched(table):
    split = np.array(["train"] * 60 + ["validation"] * 20 + ["test"] * 20)
    one, other = table(n=100, split=split), table(n=100, split=split)
    other.modalities["a"][80:] = 99
    other.target[80:] = 1 - other.target[80:]
    first, second = (fit(t, "vanilla", **FAST) for t in (one, other))
    assert first.about["rows"] == {"train": 60, "validation": 20, "test": 20}
    assert np.array_equal(first.predict(one.modalities), second.predict(one.modalities))
    assert first.about["scores"] == second.about["scores"]


def test_without_named_validation_rows_all_are_trained_on_and_every_one_is_judged(table):
    model = fit(table(n=60), "vanilla", **(FAST | {"budget": 2, "seeds": 2}))
    assert model.about["rows"] == {"train": 60, "validation": 0, "test": 0}
    assert model.about["folds"] == 5
    assert len(model.about["settings_log_loss"]["vanilla"]) == 4
    assert set(model.about["of_methods"]) == {FREQUENCIES, "vanilla"}
    score = model.about["scores"]["log_loss"]
    assert score["low"] < score["value"] < score["high"]


def test_the_label_of_a_row_does_not_touch_its_own_prediction(table, monkeypatch):
    """The predictions that are judged stay as they are when the labels of the judged fold change."""
    from synib.own import fit as module

    seen = []
    kept = module.CrossFit.honest
    monkeypatch.setattr(module.CrossFit, "honest", lambda self, methods: seen.append(kept(self, methods)) or seen[-1])
    made = table(n=60)
    parts, rows, fold = module.cross_validation(made)
    assert np.array_equal(rows, np.arange(60))
    changed = table(n=60, target=np.where(fold == 0, 1 - made.target, made.target))
    for t in (made, changed):
        monkeypatch.setattr(module, "cross_validation", lambda t, seed: (parts, rows, fold))
        fit(t, "experts", budget=2, epochs=2, device="cpu", baselines=False)
    before, after = seen[len(seen) // 2 - 1], seen[-1]  # the last of each fit is the model's own
    assert np.allclose(before[fold == 0], after[fold == 0], atol=1e-6)
    assert not np.allclose(before[fold != 0], after[fold != 0], atol=1e-3)


def test_random_labels_leave_the_class_frequencies_and_the_reason_is_a_sentence(table, tmp_path):
    made = table(n=60, target=np.random.default_rng(3).integers(0, 2, 60))
    model = fit(made, budget=1, epochs=3, device="cpu")
    assert model.method == FREQUENCIES
    assert list(model.about["of_methods"]) == [
        FREQUENCIES,
        "unimodal-a",
        "unimodal-b",
        "additive",
        "vanilla",
        "experts",
    ]
    said = model.predict(made.modalities)
    assert np.ptp(said[:, 1]) == 0
    assert said[0, 1] == pytest.approx((made.target.sum() + 0.5) / 61)
    assert model.needs_both(made.modalities) == pytest.approx(0, abs=1e-12)
    assert "the class frequencies" in model.about["choice"]
    words = sentences(model)
    assert any("accuracy" in sentence and "95 % CI" in sentence for sentence in words)
    assert "unimodal" not in " ".join(words)
    again = load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict(made.modalities), said)


def test_copies_of_a_row_are_in_one_fold(table):
    made = table(n=40)
    twice = table(
        n=80,
        modalities={name: np.tile(x, (2, 1)) for name, x in made.modalities.items()},
        present={name: np.ones(80, bool) for name in made.present},
        target=np.tile(made.target, 2),
    )
    assert "with each group in one fold" in fit(twice, "vanilla", **FAST).about["judged"]


def test_a_method_that_looks_at_validation_rows_while_it_trains_gets_none_of_those_that_judge_it(table):
    model = fit(table(n=60), "dnr", **FAST)
    assert (model.method, model.about["rows"]["train"]) == ("dnr", 60)


def test_progress_runs_from_0_to_the_end_and_never_back(table):
    seen = []
    fit(table(n=40), "vanilla", **FAST, on_progress=lambda *x: seen.append(x))
    done, of = zip(*seen, strict=True)
    assert (done[0], done[-1]) == (0, of[0])
    assert len(set(of)) == 1
    assert list(done) == sorted(done)


@pytest.mark.parametrize(
    ("changes", "method", "said"),
    [
        ({"classes": 0}, "experts", "the target is a number: use synib or synib-marginal"),
        ({"kind": "labels"}, "experts", "the target is several labels: use synib or synib-marginal"),
        ({}, "unimodal-c", "There is no modality 'c' to train on; the modalities are a, b"),
        ({}, "vanila", "did you mean 'vanilla'"),
        ({}, 3, "method must be a name, such as 'auto' or 'vanilla'; got 3"),
        (
            {"group": np.array(["x", "y"] * 80)},
            "auto",
            "3 folds need at least 3 groups, since a group stays in one fold",
        ),
        ({"split": np.array(["train"] * 158 + ["validation"] * 2)}, "auto", "at least 3 validation rows"),
    ],
)
def test_mistakes_are_one_sentence(table, changes, method, said):
    with pytest.raises(ValueError, match=said):
        fit(table(**changes), method, device="cpu")
