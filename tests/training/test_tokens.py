"""Data sets of token sequences, trained together and alone."""

import pytest
import torch
from torch import nn

from synib import Bernoulli, FusionModel, Tokens, methods
from synib.data import Dataset, Split
from synib.models import ConcatFusion, mlp
from synib.training import Cell, fleet
from synib.training.loop import fit

TRAINING = {"lr": 1e-2, "weight_decay": 1e-3, "epochs": 2, "batch_size": 16}


class MeanOfTokens(nn.Module):
    """What is not padding, averaged and mapped."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 6)

    def forward(self, x):
        there = (~x.padding).to(x.values.dtype)[..., None]
        return self.linear((x.values * there).sum(-2) / there.sum(-2)).relu()


class Sequences:
    """Two sequences of 5 tokens, of which the last are padding."""

    curves = False

    def data(self, cell):
        g = torch.Generator().manual_seed(cell.seed)

        def split(n):
            padding = torch.arange(5) >= torch.randint(1, 6, (n, 1), generator=g)
            x = {name: Tokens(torch.randn(n, 5, 3, generator=g), padding) for name in "ab"}
            return Split(x, torch.randint(2, (n,), generator=g))

        return Dataset(split(40), split(16), split(20))

    def model(self, cell, data):
        return FusionModel(
            {name: MeanOfTokens(width) for name, width in data.widths.items()},
            ConcatFusion(dict.fromkeys(data.widths, 6), [4, 1]),
            heads={name: mlp([6, 1]) for name in data.widths},
        )

    def method(self, cell, data):
        settings = {k: v for k, v in cell.settings.items() if k not in TRAINING}
        return methods.build(cell.method, family=Bernoulli(), **settings)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("vanilla", {}), ("synib-random", {"weight": 1.0, "p": 0.5}), ("masked-random", {"p": 0.5})],
)
def test_models_of_sequences_trained_together_are_those_trained_alone(method, settings):
    recipe = Sequences()
    cells = [Cell("sequences", method, {}, TRAINING | settings, seed) for seed in (0, 1)]
    together = fleet.train(recipe, cells)
    for cell, learner in zip(cells, together.learners, strict=True):
        data = recipe.data(cell)
        torch.manual_seed(cell.seed)
        model = recipe.model(cell, data)
        fit(recipe.method(cell, data), model, data, **TRAINING, seed=cell.seed)
        for name, p in model.named_parameters():
            torch.testing.assert_close(dict(learner.model.named_parameters())[name], p, rtol=1e-3, atol=1e-5)
