"""Logistic regression on all numbers, as a model in the same form as networks."""

import dataclasses

import numpy as np
import pytest

from synib.own.fit import fit
from synib.own.fitting import answers_of
from synib.own.folds import Fold
from synib.own.logistic_model import Regression
from synib.own.recipe import TableRecipe
from synib.own.saved import load
from synib.own.search_space import LINEAR, WIDE, compared
from synib.own.table import Table

ROWS = np.arange(120)


def wide(classes=2, missing=False, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(120, WIDE)), rng.normal(size=(120, 3))
    y = (x[:, :classes] + z[:, :1] * np.eye(classes)[0]).argmax(1)
    if missing:
        z[:40] = np.nan
    return Table.from_arrays({"text": x, "person": z}, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("ridge", [0.3, 0.01])
def test_it_is_scikit_learns_logistic_regression(classes, ridge):
    from sklearn.linear_model import LogisticRegression

    table = wide(classes)
    recipe = TableRecipe(table, [Fold(ROWS[:90], ROWS[:2], ROWS[90:])])
    (learner,) = Regression(recipe, 0, ROWS[:90]).learners([ridge])
    ours = answers_of(learner, recipe.split(0, ROWS))[0].numpy()
    scaling = recipe.scaling(0)
    columns = []
    for name, x in table.modalities.items():
        scale = scaling.columns[name]
        deviation = 1 / scale.factor
        columns.append((x - scale.mean) / np.sqrt(np.mean(deviation**2)))
    features = np.concatenate(columns, 1)
    peer = LogisticRegression(C=1 / (ridge * 90), tol=1e-8, max_iter=5000).fit(features[:90], table.target[:90])
    theirs = peer.decision_function(features).reshape(len(ROWS), -1)
    difference = ours - theirs
    difference -= difference.mean(1, keepdims=True) if classes > 2 else 0.0  # of several logits only differences count
    assert np.abs(difference).max() < 1e-3 * theirs.std()  # in single precision


def test_it_is_compared_where_a_modality_is_wide_and_there_are_classes():
    assert LINEAR in compared(wide())
    narrow = Table.from_arrays({"a": np.ones((20, 4)), "b": np.ones((20, 2))}, np.arange(20) % 2)
    assert LINEAR not in compared(narrow)
    number = Table.from_arrays({"a": np.ones((90, WIDE)), "b": np.ones((90, 2))}, np.arange(90) / 7)
    assert LINEAR not in compared(number)
    with pytest.raises(ValueError, match="linear is a logistic regression, which needs a target of classes"):
        fit(number, "linear", device="cpu")


@pytest.mark.parametrize("missing", [False, True])
def test_a_saved_one_predicts_as_before(missing, tmp_path):
    table = wide(missing=missing)
    model = fit(table, "linear", device="cpu", baselines=False)
    assert model.method == "linear"
    assert model.settings["hidden"] == [2, 2]
    assert model.learned == ()  # what is missing is averaged over, however many rows lack it
    assert len(model.about["settings_log_loss"]["linear"]) == 5
    said = model.predict(table.modalities, table.present)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.allclose(again.predict(table.modalities, table.present), said, atol=1e-6)
    assert (said.argmax(1) == table.target).mean() > 0.8
    assert model.predict({"person": table.modalities["person"]}).shape == (120, 2)


def test_rows_that_count_more_are_fitted_better():
    table = wide()
    weight = np.where(ROWS < 20, 50.0, 1.0)
    recipes = [
        TableRecipe(t, [Fold(ROWS, ROWS[:2], ROWS[:0])]) for t in (table, dataclasses.replace(table, weight=weight))
    ]
    losses = []
    for recipe in recipes:
        (learner,) = Regression(recipe, 0, ROWS).learners([0.1])
        split = recipe.split(0, ROWS[:20])
        losses.append(float(recipe.family.nll(answers_of(learner, split)[0], split.target).mean()))
    assert losses[1] < losses[0]
