"""The final training of a fit: repeated where it fails, since the cross-validated scores would not be those of the model."""

import numpy as np
import pytest
import torch

from synib.own import fit_run
from synib.own.fit import fit
from synib.own.refit import ATTEMPTS, LEAST, _spread, largest_loss, training_loss

FAST = {"budget": 1, "epochs": 20, "device": "cpu", "baselines": False, "incomplete": False}


class Untrained:
    """A trained cell whose parameters are 0."""

    def __init__(self, cell):
        self.cell = cell

    def learner(self):
        learner = self.cell.learner()
        for parameter in learner.model.parameters():
            torch.nn.init.zeros_(parameter)
        return learner


@pytest.fixture
def failing(monkeypatch):
    """The final training fails from so many seeds: it returns models that were not trained."""
    seeds = []

    def set_up(failures):
        train_cells = fit_run.train_cells

        def some_fail(recipe, cells, *args, **kwargs):
            trained = train_cells(recipe, cells, *args, **kwargs)
            if len(recipe.parts) > 1:
                return trained
            seeds.append(cells[0].seed)
            return {cells[0].id: Untrained(trained[cells[0].id])} if len(seeds) <= failures else trained

        monkeypatch.setattr(fit_run, "train_cells", some_fail)
        return seeds

    return set_up


def accuracy(model, table):
    return (model.predict(table.modalities).argmax(1) == table.target).mean()


def test_training_that_fails_is_repeated_from_another_seed(table, failing):
    seeds = failing(1)
    xor = table()
    model = fit(xor, "vanilla", seed=3, **FAST)
    assert seeds == [3, 4]
    assert model.about["kept"] == {"seed": 4, "attempts": 2}
    assert accuracy(model, xor) > 0.95
    assert "failed" not in model.about["choice"]


@pytest.mark.parametrize("method", ["vanilla", "experts"])
def test_where_training_fails_from_every_seed_the_model_of_a_fold_is_kept_and_this_is_said(method, table, failing):
    seeds = failing(ATTEMPTS)
    xor = table()
    model = fit(xor, method, **FAST)
    assert seeds == [0, 1, 2]
    assert model.about["kept"] == {"seed": 0, "attempts": 3, "fold": 0}
    assert model.about["rows"]["train"] == 128
    assert accuracy(model, xor) > 0.95
    assert "Training on all rows failed from 3 seeds" in model.about["choice"]


def test_training_that_succeeds_is_not_repeated_even_where_nothing_can_be_learned(table, failing):
    seeds = failing(0)
    noise = table(target=np.random.default_rng(0).integers(2, size=160))
    fit(noise, "vanilla", **FAST)
    fit(table(classes=0), "synib", **FAST)
    assert seeds == [0, 0]


def test_the_limit_lies_above_every_fold_and_below_a_constant_prediction(table, monkeypatch):
    seen = []
    monkeypatch.setattr(fit_run, "largest_loss", lambda *args: seen.append(args) or largest_loss(*args))
    fit(table(), "experts", **FAST)
    ((recipe, learners),) = seen
    limit = largest_loss(recipe, learners)
    assert limit.shape == (3,)  # of each expert
    losses, constants = zip(*(training_loss(recipe, i, learner) for i, learner in enumerate(learners)), strict=True)
    assert all((loss + LEAST <= limit + 1e-9).all() for loss in losses)
    assert limit[0] < 0.5 * float(constants[0])  # the synergy expert has learned the XOR
    assert float(constants[0]) == pytest.approx(np.log(2), abs=0.01)


def test_large_tables_are_compared_on_rows_spread_over_all_of_them():
    rows = np.arange(50_000)
    assert len(_spread(rows)) == 16_667
    assert _spread(rows)[-1] >= 49_997
    assert len(_spread(rows[:20_000])) == 20_000
