"""What only a GPU can show: the same numbers as on the CPU, no waiting for the host, compiled code, memory that ends."""

import dataclasses

import pytest
import torch

import synib
from synib import keys
from synib.files import read_csv
from synib.methods import METHODS, Vanilla, build
from synib.studies import SpuriousXOR
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import fleet
from synib.training.cells import Cell
from synib.training.device import release
from synib.training.folder import Folder
from synib.training.stacked import StackedModels
from synib.training.sweep import sweep

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


def vanilla(models):
    """An experiment of small models, and that many of its cells; each has 15 MB of test data."""
    experiment = SpuriousXOR(seeds=models, beta=(1.0,), methods=("vanilla",), epochs=1)
    return experiment, experiment.cells()


def drift(here, there):
    """How far the furthest parameter of two fleets is apart."""
    pairs = [(p, there.fleet.parameters[name]) for name, p in here.fleet.parameters.items()]
    return max((a.cpu() - b.cpu()).abs().max().item() for a, b in pairs)


@pytest.fixture
def allow():
    """``allow(n)`` leaves this process n bytes more than it holds; afterwards it has what it had."""
    device, before = torch.cuda.current_device(), torch.cuda.get_per_process_memory_fraction()

    def limit(more):
        release("cuda")
        allowed = torch.cuda.memory_reserved(device) + more
        torch.cuda.set_per_process_memory_fraction(
            allowed / torch.cuda.get_device_properties(device).total_memory, device
        )
        return allowed

    yield limit
    torch.cuda.set_per_process_memory_fraction(before, device)
    release("cuda")


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


@pytest.mark.parametrize(
    "options", [{"backend": "cudagraphs"}, {"mode": "reduce-overhead"}], ids=["cudagraphs", "inductor"]
)
def test_a_recorded_step_has_new_draws_and_the_weight_that_is_set_from_outside(model, batch, options):
    torch.compiler.reset()
    objective, model = synib.SynIB(synib.RandomMask(0.5), synib.StandardNoise(), weight=3.0).cuda(), model.cuda()
    recorded = torch.compile(objective, fullgraph=True, dynamic=False, **options)
    x, y = on_cuda(batch)
    parameters = list(model.parameters())
    for seed in range(6):
        key = keys.key(seed, "cuda")
        objective.weight.weight.fill_(float(seed))
        loss = recorded(model, x, y, key=key)[0]
        gradients = [g.clone() for g in torch.autograd.grad(loss, parameters)]
        found = loss.item()
        expected = objective(model, x, y, key=key)[0]
        torch.testing.assert_close(found, expected.item(), rtol=1e-4, atol=1e-5)
        for mine, theirs in zip(gradients, torch.autograd.grad(expected, parameters), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    own = {recorded(model, x, y)[0].item() for _ in range(4)}  # each draws a key of its own
    assert len(own) == 4


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


@pytest.mark.parametrize("method", list(SpuriousXOR().defaults()))
def test_the_fleet_trains_as_on_the_cpu_and_never_waits_for_the_device_within_an_epoch(method, monkeypatch):
    experiment = SpuriousXOR(seeds=3, beta=(0.0, 1.0), methods=(method,), epochs=2)
    if method == "synib-learned":
        experiment = SpuriousXOR(
            seeds=3, beta=(0.0, 1.0), methods=(method,), epochs=2, overrides={method: {"steps": 3}}
        )
    cells: list[Cell] = experiment.cells()
    plain_epoch = StackedModels.epoch

    def watched(self, split, epoch):
        if self.device.type == "cuda" and epoch > 0:  # the first epoch may load libraries
            torch.cuda.set_sync_debug_mode("error")
        try:
            plain_epoch(self, split, epoch)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(StackedModels, "epoch", watched)
    here, there = fleet.train(experiment, cells, "cpu"), fleet.train(experiment, cells, "cuda")
    assert drift(here, there) < 2e-3
    for a, b in zip(here.metrics, there.metrics, strict=True):
        assert a["test_accuracy"] == pytest.approx(b["test_accuracy"], abs=0.01)


def unrecorded(monkeypatch):
    """Fleets made from now on launch every kernel of every step."""
    init = StackedModels.__init__

    def plain(self, *arguments):
        init(self, *arguments)
        self.recorded = None

    monkeypatch.setattr(StackedModels, "__init__", plain)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("method", list(METHODS))
def test_recorded_steps_train_what_launched_ones_do(method, precision, settings_of, monkeypatch):
    own = settings_of(method, {"x1": 64, "x2": 64})
    settings = {"lr": 1e-3, "weight_decay": 1e-3, "epochs": 4, "batch_size": 64, **own}
    recipe = Recipe()
    cells = [Cell("recorded", method, {"beta": beta}, settings, seed) for seed, beta in enumerate((0.0, 0.5, 1.0))]
    recorded = fleet.train(recipe, cells, "cuda", precision=precision)
    assert recorded.fleet.recorded.works
    # The whole batches, and from the second epoch on the smaller last one; but a method that is told of epochs begins anew.
    again = hasattr(recorded.fleet.template.method, "epoch")
    assert sum(r is not None for r in recorded.fleet.recorded.replays.values()) == (1 if again else 2)
    unrecorded(monkeypatch)
    launched = fleet.train(recipe, cells, "cuda", precision=precision)
    assert launched.fleet.recorded is None
    assert drift(recorded, launched) < 1e-5


class Recipe:
    """Spurious XOR with 200 examples: three batches of 64 and one of 8."""

    curves = False

    def data(self, cell):
        return spurious_xor(cell.factors["beta"], cell.seed, train=200, validation=64, test=64)

    def model(self, cell, data):
        return synib.FusionModel.mlp(data.widths, hidden=[16], head_hidden=[], fusion_hidden=[16], dropout=0.3)

    def method(self, cell, data):
        training = ("lr", "weight_decay", "epochs", "batch_size")
        own = {k: v for k, v in cell.settings.items() if k not in training}
        return build(cell.method, family=synib.Bernoulli(), **own)


class FromTheHost(Vanilla):
    """Copies a number to the device in every step, which a CUDA graph cannot."""

    def loss(self, model, batch, key):
        loss, parts = super().loss(model, batch, key)
        return loss * torch.tensor(1.0).to(loss.device), parts


def test_a_step_that_cannot_be_recorded_is_launched(monkeypatch):
    class Copying(Recipe):
        def method(self, cell, data):
            return FromTheHost(family=synib.Bernoulli())

    settings = {"lr": 1e-3, "weight_decay": 1e-3, "epochs": 3, "batch_size": 64}
    cells = [Cell("recorded", "vanilla", {"beta": 1.0}, settings, seed) for seed in range(2)]
    before = torch.cuda.current_stream()
    trained = fleet.train(Copying(), cells, "cuda")
    assert torch.cuda.current_stream() == before
    assert not trained.fleet.recorded.works
    assert drift(fleet.train(Copying(), cells, "cpu"), trained) < 1e-3
    assert fleet.train(Recipe(), cells, "cuda").fleet.recorded.works  # nothing is left of it


def test_settings_that_alternate_train_as_on_the_cpu():
    """Rows of a stacked bias begin at addresses that no vector load likes."""
    experiment, cells = vanilla(5)
    own = [(1e-2, 1e-3), (3e-3, 0.0), (1e-2, 1e-3), (3e-3, 1e-1), (3e-3, 1e-1)]
    cells = [
        dataclasses.replace(cell, settings={**cell.settings, "lr": lr, "weight_decay": decay})
        for cell, (lr, decay) in zip(cells, own, strict=True)
    ]
    here, there = fleet.train(experiment, cells, "cpu"), fleet.train(experiment, cells, "cuda")
    assert drift(here, there) < 5e-3  # a wrong learning rate leads further in a single step


def test_as_many_models_as_are_said_to_fit_do_fit(allow, monkeypatch):
    """On a device of which this process may have a gigabyte, so that those models are few."""
    experiment, cells = vanilla(200)
    fleet.train(experiment, cells[:1], "cuda")  # what libraries keep for themselves is taken before
    allowed = allow(2**30)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (allowed - torch.cuda.memory_reserved(device), 0))
    fits = fleet.capacity(experiment, cells, "cuda", "float32")
    assert fleet.PROBED < fits < len(cells)
    trained = fleet.train(experiment, cells[:fits], "cuda")
    assert len(trained.metrics) == fits
    assert all(0 <= metrics["test_accuracy"] <= 1 for metrics in trained.metrics)


def test_out_of_memory_halves_what_is_left_and_ends_with_the_same_results(allow, tmp_path):
    experiment, cells = vanilla(48)
    fleet.train(experiment, cells[:1], "cuda")
    release("cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    sweep(experiment, cells, Folder(tmp_path / "whole", experiment.config()), device="cuda", together=48)
    needed = torch.cuda.max_memory_allocated() - before

    said = []
    allow(int(0.65 * needed))
    sweep(
        experiment,
        cells,
        Folder(tmp_path / "halved", experiment.config()),
        device="cuda",
        together=48,
        say=said.append,
    )
    assert said
    assert said[0].startswith("Out of memory with 48 models at once on ")
    timings = read_csv(tmp_path / "halved" / "timings.csv")
    assert sum(t["cells"] for t in timings) == 48
    assert all(t["cells"] <= 24 and t["halvings"] >= 1 for t in timings)
    whole, halved = (read_csv(tmp_path / name / "results.csv") for name in ("whole", "halved"))
    assert [r["cell"] for r in halved] == [r["cell"] for r in whole] == [cell.id for cell in cells]
    for a, b in zip(whole, halved, strict=True):
        assert a["test_accuracy"] == pytest.approx(b["test_accuracy"], abs=0.01)


class Large(SpuriousXOR):
    """Data that take 100 MB, more than may be left over in what the process holds."""

    examples = 200_000


def test_one_model_that_does_not_fit_is_said(allow, tmp_path):
    experiment = Large(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1)
    allow(4 * 2**20)
    with pytest.raises(ValueError, match="A single vanilla model does not fit into the memory of"):
        sweep(experiment, experiment.cells(), Folder(tmp_path, experiment.config()), device="cuda", together=1)


def test_a_sweep_gives_its_memory_back(tmp_path):
    experiment, cells = vanilla(8)
    fleet.train(experiment, cells[:4], "cuda")  # what libraries keep for themselves is taken before
    release("cuda")
    before = torch.cuda.memory_allocated()
    sweep(experiment, cells, Folder(tmp_path, experiment.config()), device="cuda", together=4)
    assert torch.cuda.memory_allocated() - before < 2**25  # a shard's test data alone are 60 MB


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
