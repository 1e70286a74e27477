"""Models that several instruments are tried on."""

import pytest
import torch
from torch import nn

from synib import FusionModel


class Sum(nn.Module):
    """A purely additive fusion."""

    def forward(self, latents):
        return sum(latents.values())


@pytest.fixture
def additive_model():
    """From names of modalities to a model that is nothing but a sum."""

    def make(names, classes=3):
        encoders = {n: nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, classes)) for n in names}
        return FusionModel(encoders, Sum())

    return make


@pytest.fixture
def mixed_case():
    """From how many modalities and examples to a model with main effects and interactions, inputs and targets."""

    def make(n=2, examples=40, classes=3):
        names = [f"x{i}" for i in range(n)]
        x = {name: torch.randn(examples, 4) for name in names}
        model = FusionModel.mlp(dict.fromkeys(names, 4), [8], classes=classes, fusion_hidden=[8], dropout=0.3)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(2)
        return model, x, torch.randint(classes, (examples,))

    return make
