"""Fused operations on a GPU: the bits of torch's own operations, alone and in the steps of many models."""

import pytest
import torch

from synib import fused
from synib.fused import activation, adam
from synib.fused import device as kernels
from synib.studies import PIDSimplex
from synib.training.stacked import StackedModels

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def device():
    pytest.importorskip("triton", reason="Triton is not installed")
    device = torch.device("cuda", torch.cuda.current_device())
    fused.prepare(device)
    return device


def test_both_kernels_give_the_bits_of_torch_on_this_card(device):
    assert activation.prepare(device)
    assert adam.prepare(device)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("biased", "p"), [(True, 0.0), (True, 0.3), (False, 0.5)])
def test_the_activation_keeps_what_is_not_a_number(device, columns, biased, p):
    x = torch.randn(5, 33, 65, device=device)
    x[0, 0, 0], x[1, 2, 3], x[2] = float("nan"), float("inf"), -0.0
    bias = torch.randn(5, 33 if columns else 65, device=device) if biased else None
    dropped = torch.rand_like(x) < p if p else None
    ours, theirs = (run(x, bias, dropped, p, columns) for run in (activation._forward, activation._plain))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("method", ["vanilla", "synib-random", "synib-learned"])
def test_a_recorded_fleet_has_the_same_bits_with_and_without_fused_operations(device, monkeypatch, method):
    experiment = PIDSimplex(methods=(method,), width=256, seeds=8, step=1.0)
    cells = experiment.cells()[:8]
    data = [experiment.data(cell) for cell in cells]
    monkeypatch.setattr(adam, "LARGE", 1 << 10)

    def trained():
        fleet = StackedModels(experiment, cells, data, device)
        fleet.epoch(fleet.stack([d.train for d in data]), 0)
        assert fleet.recorded.works
        return fleet

    ours = trained()
    assert len(ours.optimiser.large) > 5
    for name in ("synib::adam", "synib::relu_dropout"):
        monkeypatch.setitem(kernels._usable, (name, device.index), False)
    theirs = trained()
    assert not theirs.optimiser.large
    for name, p in ours.parameters.items():
        if (
            method == "synib-learned"
        ):  # whose search has its last layer's products in another layout, and so rounded otherwise
            torch.testing.assert_close(p, theirs.parameters[name], atol=5e-3, rtol=0)
        else:
            assert torch.equal(p, theirs.parameters[name]), name
