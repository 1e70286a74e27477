"""What only a GPU can show: the same numbers as on the CPU, no waiting for the host, compiled code."""

import pytest
import torch

import synib
from synib import keys
from synib.engines import fleet
from synib.engines.cells import Cell
from synib.experiments import SpuriousXOR

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MASKS = {
    "random": lambda: synib.RandomMask(0.4),
    "oracle": lambda: synib.OracleMask({"a": [0, 1], "b": [2]}),
    "learned": lambda: synib.LearnedMask(steps=3),
    "amortized": lambda: synib.AmortizedMask({"a": 8, "b": 6}),
}
NOISES = {"standard": synib.StandardNoise, "matched": synib.MatchedNoise, "shuffled": synib.ShuffledNoise}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return synib.FusionModel.mlp({"a": 8, "b": 6}, hidden=[16], classes=3, head_hidden=[])


@pytest.fixture
def batch():
    torch.manual_seed(1)
    return {"a": torch.randn(32, 8), "b": torch.randn(32, 6)}, torch.randint(3, (32,))


def on_cuda(batch):
    return {name: x.cuda() for name, x in batch[0].items()}, batch[1].cuda()


def test_a_key_gives_the_same_bits_everywhere():
    key = keys.key(5)
    assert torch.equal(keys._bits(key, 1000), keys._bits(key.cuda(), 1000).cpu())
    assert torch.equal(keys.uniform(key, (1000,)), keys.uniform(key.cuda(), (1000,)).cpu())
    torch.testing.assert_close(keys.normal(key, (1000,)), keys.normal(key.cuda(), (1000,)).cpu(), rtol=1e-5, atol=1e-5)
    assert torch.equal(keys.permutation(key, 1000), keys.permutation(key.cuda(), 1000).cpu())


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mask", MASKS)
def test_the_loss_is_that_of_the_cpu(model, batch, mask, noise):
    torch.manual_seed(2)
    objective = synib.SynIB(MASKS[mask](), NOISES[noise](), weight=3.0)
    here, _ = objective(model, *batch, key=keys.key(7))
    there, _ = objective.cuda()(model.cuda(), *on_cuda(batch), key=keys.key(7, "cuda"))
    torch.testing.assert_close(here, there.cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", ["random", "oracle"])
def test_the_step_compiles_whole_and_gives_the_same_loss(model, batch, mask):
    objective, model = synib.SynIB(MASKS[mask](), synib.StandardNoise(), weight=3.0).cuda(), model.cuda()
    compiled = torch.compile(lambda x, y, key: objective(model, x, y, key=key)[0], fullgraph=True)
    x, y = on_cuda(batch)
    for seed in (1, 2):
        key = keys.key(seed, "cuda")
        torch.testing.assert_close(compiled(x, y, key), objective(model, x, y, key=key)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_trains(model, batch, dtype):
    objective, model = synib.SynIB(synib.RandomMask(0.5), weight=3.0).cuda(), model.cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    x, y = on_cuda(batch)
    losses = []
    for step in range(30):
        with torch.autocast("cuda", dtype=dtype):
            loss, _ = objective(model, x, y, key=keys.key(step, "cuda"))
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
    assert torch.tensor(losses).isfinite().all()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("method", list(SpuriousXOR.defaults()))
def test_the_fleet_trains_as_on_the_cpu_and_never_waits_for_the_device_within_an_epoch(method, monkeypatch):
    experiment = SpuriousXOR(seeds=3, beta=(0.0, 1.0), methods=(method,), epochs=2)
    if method == "synib-learned":
        experiment = SpuriousXOR(
            seeds=3, beta=(0.0, 1.0), methods=(method,), epochs=2, overrides={method: {"steps": 3}}
        )
    cells: list[Cell] = experiment.cells()
    plain_epoch = fleet.Fleet.epoch

    def watched(self, split, epoch):
        if self.device.type == "cuda" and epoch > 0:  # the first epoch may compile
            torch.cuda.set_sync_debug_mode("error")
        try:
            plain_epoch(self, split, epoch)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(fleet.Fleet, "epoch", watched)
    here, there = fleet.train(experiment, cells, "cpu"), fleet.train(experiment, cells, "cuda")
    drift = (here.fleet.parameters - there.fleet.parameters.cpu()).abs().max()
    assert drift < 2e-3
    for a, b in zip(here.metrics, there.metrics, strict=True):
        assert a["test_accuracy"] == pytest.approx(b["test_accuracy"], abs=0.01)


def test_a_key_on_the_host_draws_the_same_on_the_device(model, batch):
    objective, model = synib.SynIB(synib.RandomMask(0.4), weight=3.0).cuda(), model.cuda()
    x, y = on_cuda(batch)
    objective(model, x, y)  # the first call looks at the values, and waits
    torch.cuda.set_sync_debug_mode("error")
    try:
        objective(model, x, y)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    objective.eval()
    host, device = objective(model, x, y, key=keys.key(7))[0], objective(model, x, y, key=keys.key(7, "cuda"))[0]
    torch.testing.assert_close(host, device)
