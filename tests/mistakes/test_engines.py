"""Mistakes in cells, recipes and own methods: said before anything is trained, and never trained wrong in silence."""

from dataclasses import replace

import pytest
import torch

import synib
from synib.objective import Objective
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import Cell, fleet
from synib.training.device import choose_device

CELL = Cell("e", "own", {}, {"lr": 1e-2, "weight_decay": 0.0, "epochs": 1, "batch_size": 16, "weight": 1.0})


class Weighted(Objective):
    """Twice the weight times the loss, with the weight kept as it came."""

    def __init__(self, weight):
        super().__init__(family=synib.Bernoulli())
        self.weight = weight

    def loss(self, model, batch, key):
        total, parts, _ = self.supervised(model, *self.intact(model, batch.modalities), batch)
        return 2 * self.weight * total, parts


class Buffered(Weighted):
    """The same with the weight as a buffer."""

    def __init__(self, weight):
        super().__init__(None)
        del self.weight
        self.register_buffer("weight", torch.tensor(weight))


class Recipe:
    """Trains an own method on a few examples."""

    curves = False

    def __init__(self, kind):
        self.kind = kind

    def data(self, cell):
        return spurious_xor(0.0, cell.seed, train=32, validation=8, test=8)

    def model(self, cell, data):
        return synib.FusionModel.mlp(data.widths, hidden=[4])

    def method(self, cell, data):
        return self.kind(cell.settings["weight"])


def with_settings(**settings):
    return replace(CELL, settings={**CELL.settings, **settings})


def test_a_weight_kept_as_a_plain_number_is_refused_where_models_differ_in_it():
    cells = [CELL, with_settings(weight=100.0)]
    with pytest.raises(ValueError, match=r"own keeps weight as a plain number, .* self\.register_buffer\(\"weight\""):
        fleet.train(Recipe(Weighted), cells)
    assert len(fleet.train(Recipe(Weighted), [CELL, replace(CELL, seed=1)]).metrics) == 2  # they do not differ in it


def test_a_weight_kept_as_a_buffer_is_each_models_own():
    cells = [CELL, with_settings(weight=0.0)]
    together = fleet.train(Recipe(Buffered), cells).learners
    alone = [fleet.train(Recipe(Buffered), [cell]).learners[0] for cell in cells]
    for ours, theirs in zip(together, alone, strict=True):
        for name, p in theirs.named_parameters():
            torch.testing.assert_close(dict(ours.named_parameters())[name], p)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([CELL, with_settings(batch_size=8)], "share a program; these have 2: group them with"),
        ([], "share a program; these have 0"),
        ([Cell("e", "own", {}, {"lr": 1e-2, "batch_size": 16, "weight": 1.0})], "The settings of a cell must contain"),
    ],
)
def test_cells_that_cannot_be_trained_together_are_refused(cells, said):
    with pytest.raises(ValueError, match=said):
        fleet.train(Recipe(Weighted), cells)


def test_a_cuda_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device("cuda:0") == "cuda:0"
    with pytest.raises(ValueError, match="Device 'cuda:7' does not exist: torch finds 1 CUDA device"):
        choose_device("cuda:7")
