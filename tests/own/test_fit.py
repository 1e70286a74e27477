"""Fitting a model: what it is chosen on, and what it must not see."""

import numpy as np
import pytest

from synib.own.fit import fit


def test_synib_is_experts_for_classes_and_marginal_for_numbers(table):
    assert fit(table(n=40), budget=1, epochs=1, device="cpu").method == "experts"
    model = fit(table(n=40, classes=0), budget=1, epochs=1, device="cpu")
    assert model.method == "synib-marginal"
    assert model.settings["draws"] == 16


def test_rows_kept_for_testing_are_not_touched(table):
    split = np.array(["train"] * 60 + ["validation"] * 20 + ["test"] * 20)
    one, other = table(n=100, split=split), table(n=100, split=split)
    other.modalities["a"][80:] = 99
    other.target[80:] = 1 - other.target[80:]
    first, second = (fit(t, "vanilla", budget=2, epochs=2, device="cpu") for t in (one, other))
    assert first.about["rows"] == {"train": 60, "validation": 20, "test": 20}
    assert np.array_equal(first.predict(one.modalities), second.predict(one.modalities))


def test_the_best_seed_is_kept_and_the_choice_is_recorded(table):
    model = fit(table(n=60), "vanilla", budget=3, seeds=2, epochs=2, device="cpu")
    assert len(model.about["validation_log_loss"]) == 3
    assert model.about["kept"]["validation_log_loss"] <= min(model.about["validation_log_loss"]) + 1e-9


def test_experts_need_classes(table):
    with pytest.raises(ValueError, match="the target is a number: use synib or synib-marginal"):
        fit(table(classes=0), "experts")
