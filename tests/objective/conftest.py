"""A batch of up to three modalities and a model for it, in double precision."""

import pytest
import torch

from synib import FusionModel

WIDTHS = {"a": 4, "b": 3, "c": 5}
ROWS, CLASSES = 6, 3


@pytest.fixture
def batch():
    """From how many modalities and rows to inputs and classes."""

    def make(n=2, rows=ROWS):
        x = {name: torch.randn(rows, WIDTHS[name], dtype=torch.float64) for name in list(WIDTHS)[:n]}
        return x, torch.arange(rows) % CLASSES

    return make


@pytest.fixture
def fusion_model():
    """From how many modalities to a model of them."""

    def make(n=2, heads=True, **settings):
        widths = {name: WIDTHS[name] for name in list(WIDTHS)[:n]}
        return FusionModel.mlp(
            widths, hidden=[5], classes=CLASSES, head_hidden=[] if heads else None, **settings
        ).double()

    return make
