"""Rows that lack modalities: the second model, what it counts, and what it does not change."""

import dataclasses

import numpy as np
import pytest
import torch

from synib.objective import Categorical, Gaussian
from synib.own.fit import fit
from synib.own.incomplete import weigh
from synib.own.saved import load
from synib.own.second import group_of, groups
from synib.own.table import Table

VIEWS = ("a", "b", "c", "d", "e")


def make_views(n, seed):
    """Five noisy views of one of three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    centres = np.random.default_rng(9).normal(size=(5, 3, 4)) * 2
    x = {name: (c[y] + rng.normal(size=(n, 4))).astype(np.float32) for name, c in zip(VIEWS, centres, strict=True)}
    present = {name: np.ones(n, bool) for name in VIEWS}
    return Table(modalities=x, present=present, target=y, classes=("x", "y", "z"), source="views.npz")


@pytest.fixture(scope="module")
def fitted():
    return fit(make_views(240, 0), "vanilla", budget=1, epochs=15, device="cpu", baselines=False)


def loss(model, rows, kept):
    p = model.predict({name: rows.modalities[name] for name in kept})
    return float(-np.log(p[np.arange(len(p)), rows.target]).mean())


def test_where_views_are_redundant_one_view_alone_is_enough(fitted):
    new, averaging = make_views(400, 1), dataclasses.replace(fitted, second=None)
    for name in VIEWS:
        assert loss(fitted, new, [name]) < loss(averaging, new, [name]) - 0.1
    assert loss(fitted, new, VIEWS[1:]) < loss(averaging, new, VIEWS[1:]) + 0.02


def test_complete_rows_are_predicted_by_the_chosen_model_alone(fitted):
    new = make_views(50, 1)
    alone = dataclasses.replace(fitted, second=None).predict(new.modalities)
    assert np.array_equal(fitted.predict(new.modalities), alone)
    some = {name: x.copy() for name, x in new.modalities.items()}
    some["b"][3] = np.nan
    assert np.allclose(np.delete(fitted.predict(some), 3, 0), np.delete(alone, 3, 0))
    lacking = {name: x[3:4] for name, x in new.modalities.items() if name != "b"}
    assert np.allclose(fitted.predict(some)[3], fitted.predict(lacking)[0])


def test_a_view_that_is_enough_alone_makes_rows_that_do_not_need_both(fitted):
    new = make_views(200, 1)
    before = dataclasses.replace(fitted, second=None).needs_both(new.modalities)
    assert fitted.needs_both(new.modalities).mean() < before.mean() - 0.1


def test_a_saved_model_predicts_incomplete_rows_as_it_did(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again, rows = load(tmp_path / "model"), make_views(20, 2).modalities
    for kept in (["c"], VIEWS[:3], VIEWS):
        given = {name: rows[name] for name in kept}
        assert np.allclose(again.predict(given), fitted.predict(given))


def test_the_better_of_two_predictions_of_a_number_counts_alone():
    torch.manual_seed(0)
    y = torch.randn(200, dtype=torch.float64)
    good, poor = (torch.stack([y + s * torch.randn(200), torch.zeros(200)], 1).double() for s in (0.1, 3.0))
    calibration = weigh(Gaussian(), torch.stack([poor, good]), y)
    assert calibration.weights.tolist() == [0, 1]
    assert calibration.bias[1] < 0  # surer than it said


def test_a_prediction_that_tells_nothing_has_hardly_any_weight():
    torch.manual_seed(0)
    y = torch.randint(3, (600,))
    good = torch.nn.functional.one_hot(y, 3).double() + 0.5 * torch.randn(600, 3)
    weights = weigh(Categorical(), torch.stack([torch.randn(600, 3).double(), good]), y).weights
    assert weights[1] > 10 * abs(weights[0])


def test_every_combination_of_a_few_modalities_is_a_group_and_of_many_every_number():
    has = torch.tensor([[False, False], [True, False], [False, True], [True, True]])
    assert group_of(list(has.T)).tolist() == [0, 1, 2, 3]
    assert groups(2) == 4
    assert group_of([torch.tensor([True])] * 6).tolist() == [6]
    assert groups(6) == 7
