"""A compiled step of a fleet on a GPU: kept, loaded, recorded, and equal up to rounding."""

import pytest
import torch

import synib
from synib.methods import build
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import compiled, fleet
from synib.training.cells import Cell

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Recipe:
    """Spurious XOR with 192 examples: three batches of 64."""

    curves = False

    def data(self, cell):
        return spurious_xor(cell.factors["beta"], cell.seed, train=192, validation=64, test=64)

    def model(self, cell, data):
        return synib.FusionModel.mlp(data.widths, hidden=[16], head_hidden=[], fusion_hidden=[16], dropout=0.3)

    def method(self, cell, data):
        return build(cell.method, family=synib.Bernoulli(), **({"weight": 2.0, "p": 0.4} if "-" in cell.method else {}))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vanilla", "synib-random"])
def test_compiled_steps_are_kept_and_train_what_others_do(method, monkeypatch):
    settings = {"lr": 1e-3, "weight_decay": 1e-3, "epochs": 4, "batch_size": 64}
    cells = [Cell("compiled", method, {"beta": beta}, settings, seed) for seed, beta in enumerate((0.0, 0.5, 1.0))]
    plain = fleet.train(Recipe(), cells, "cuda")
    monkeypatch.setenv("SYNIB_COMPILE", "always")
    for _ in range(2):  # compiled, then loaded
        trained = fleet.train(Recipe(), cells, "cuda")
        assert all(ready is not None for ready in trained.fleet.compiled.ready.values())
        assert trained.fleet.recorded.works
        for name, value in plain.fleet.parameters.items():
            torch.testing.assert_close(trained.fleet.parameters[name], value, rtol=1e-3, atol=1e-3)
    assert len(list(compiled.folder().rglob("*.bin"))) == 1
