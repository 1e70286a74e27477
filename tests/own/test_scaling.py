"""Scaling by the training rows that have a modality, and back to the target's units."""

import numpy as np
import pytest
import torch

from synib.objective import Gaussian
from synib.own.folds import Fold, folds
from synib.own.recipe import TableRecipe
from synib.own.scaling import Scaling
from synib.tokens import Tokens


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_modalities_are_standardised_by_the_training_rows_that_have_them_and_in_single_precision(table, dtype):
    made = table(n=40, lacks=0.3)
    made.modalities.update({name: x.astype(dtype) for name, x in made.modalities.items()})
    before = made.modalities["a"].copy()
    recipe = TableRecipe(made, folds(made, 4))
    for cell in recipe.cells("vanilla", 1):
        data = recipe.data(cell)
        a, b = data.train.modalities["a"], data.train.modalities["b"]
        assert isinstance(a, Tokens)
        assert b.dtype == a.values.dtype == torch.float32
        for x in (a.values[~a.padding], b):
            assert torch.allclose(x.mean(0), torch.zeros(x.shape[1]), atol=2e-3)
            assert torch.allclose(x.std(0, correction=0), torch.ones(x.shape[1]), atol=2e-3)
        fold = recipe.parts[cell.factors["fold"]]
        assert np.array_equal(~a.padding[:, 0].numpy(), made.present["a"][fold.train])
        assert data.test is None
    assert np.array_equal(made.modalities["a"], before)


def test_a_column_that_is_constant_in_training_is_0_whatever_comes_later(table):
    made = table(n=40)
    made.modalities["a"][:, 2] = 0.1
    (train, validation, test), *_ = folds(made, 4)
    made.modalities["a"][test, 2] = 1e6
    recipe = TableRecipe(made, [Fold(train, validation, test)])
    assert (recipe.inputs(0, test)["a"][:, 2] == 0).all()
    assert (recipe.inputs(0, train)["a"][:, 2] == 0).all()
    assert (recipe.inputs(0, train)["a"][:, 1] != 0).all()


def test_numbers_are_standardised_and_predictions_come_back_in_their_units(table):
    made = table(n=40, classes=0)
    recipe = TableRecipe(made, folds(made, 4))
    train = recipe.parts[0].train
    split = recipe.split(0, train)
    assert split.target.shape == (len(train), 1)
    assert float(split.target.mean()) == pytest.approx(0, abs=1e-5)
    assert float(split.target.std(correction=0)) == pytest.approx(1, abs=1e-5)
    predicted = torch.cat([split.target, torch.zeros_like(split.target)], 1).numpy()
    back = recipe.scaling(0).undo(Gaussian(), predicted)
    assert np.allclose(back[:, 0], made.target[train], atol=1e-4)
    assert np.allclose(np.exp(back[:, 1] / 2), made.target[train].std(), rtol=1e-4)


def test_a_target_that_is_constant_in_training_is_refused(table):
    made = table(n=40, classes=0)
    made.target[:30] = 5.0
    with pytest.raises(ValueError, match="The target is 5 in all 30 rows to train on"):
        Scaling.fit(made, np.arange(30))
