"""Models trained together are the models they would have been alone."""

import dataclasses
import gc
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from synib.data import Split
from synib.engines import fleet
from synib.engines.loop import fit
from synib.methods import METHODS
from synib.models import FusionModel


@pytest.fixture(autouse=True, scope="module")
def _collected():
    """What is alive now need not be looked at whenever garbage is collected, which a release does."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def three(cell, method, **settings):
    """Cells that differ in everything cells of one program may differ in."""
    penalised = "weight" in cell(method).settings
    own = [{"weight": w} if penalised else {} for w in (1.0, 5.0, 0.1)]
    return [
        cell(method, beta=1.0, seed=0, lr=1e-2, weight_decay=1e-3, **own[0], **settings),
        cell(method, beta=0.5, seed=1, lr=3e-3, weight_decay=0.0, **own[1], **settings),
        cell(method, beta=0.0, seed=0, lr=1e-3, weight_decay=1e-1, **own[2], **settings),
    ]


def assert_same(one, other):
    """Learners equal up to the order in which sums add up."""
    a, b = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    for name in a:
        assert torch.allclose(a[name], b[name], rtol=1e-4, atol=1e-5), name


def assert_together_is_alone(recipe, cells):
    together = fleet.train(recipe, cells)
    for i, cell in enumerate(cells):
        alone = fleet.train(recipe, [cell])
        assert_same(together.learners[i], alone.learners[0])
        assert together.metrics[i] == pytest.approx(alone.metrics[0])
        assert together.curves[i].keys() == alone.curves[0].keys()
        for name, curve in together.curves[i].items():
            assert curve == pytest.approx(alone.curves[0][name])


def by_hand(recipe, cell):
    """The cell in an ordinary PyTorch loop: module, objective, torch's Adam, one batch after the other."""
    data = recipe.data(cell)
    torch.manual_seed(cell.seed)
    model = recipe.model(cell, data)
    torch.manual_seed(cell.seed)
    method = recipe.method(cell, data)
    settings = {name: cell.settings[name] for name in ("lr", "weight_decay", "epochs", "batch_size")}
    fit(method, model, data, seed=cell.seed, **settings)
    return model, method, data


@pytest.mark.parametrize("method", METHODS)
def test_cells_trained_together_equal_cells_trained_alone(tiny, cell, method):
    assert_together_is_alone(tiny(), three(cell, method))


@pytest.mark.parametrize("method", ["vanilla", "synib-random", "synib-learned"])
def test_models_that_drop_units_too_equal_themselves_trained_alone(tiny, cell, method):
    assert_together_is_alone(tiny(dropout=0.3), three(cell, method))


@pytest.mark.parametrize("noise", ["matched", "shuffled"])
def test_every_noise_trains_together_as_alone(tiny, cell, noise):
    assert_together_is_alone(tiny(), three(cell, "synib-random", noise=noise))


@pytest.mark.parametrize(("method", "dropout"), [*((m, 0.0) for m in METHODS), ("vanilla", 0.3), ("synib-random", 0.3)])
def test_a_cell_equals_an_ordinary_pytorch_loop(tiny, cell, method, dropout):
    cells = three(cell, method)
    trained = fleet.train(tiny(dropout), cells)
    for one, metrics, mine in zip(trained.learners, trained.metrics, cells, strict=True):
        model, own, data = by_hand(tiny(dropout), mine)
        assert_same(one.model, model)
        assert_same(one.method, own)
        for part, name in ((data.train, "train"), (data.validation, "validation"), (data.test, "test")):
            with torch.no_grad():
                hits = (own.predict(model, part.modalities).flatten() > 0).long() == part.target
            assert metrics[f"{name}_accuracy"] == pytest.approx(hits.double().mean().item(), abs=1e-6)


def test_training_goes_on_from_the_seeds_initial_weights(tiny, cell):
    """Learning rates near zero leave the weights where the seed put them."""
    still = fleet.train(tiny(), [cell(lr=1e-12)]).learners[0].model
    torch.manual_seed(0)
    assert_same(still, tiny().model(cell(), tiny().data(cell())))


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("synib-random", "lr", 2e-2),
        ("synib-random", "weight_decay", 0.3),
        ("synib-random", "weight", 20.0),
        ("synib-learned", "sparsity", 100.0),
        ("synib-amortized", "sparsity", 100.0),
    ],
)
def test_each_cell_is_trained_with_its_own_setting(tiny, cell, method, name, value):
    base = cell(method, epochs=3)
    changed = dataclasses.replace(base, settings={**base.settings, name: value})
    one, other, again = fleet.train(tiny(), [base, changed, base]).learners
    assert_same(one, again)
    assert not torch.allclose(one.model.encoders["x1"][0].weight, other.model.encoders["x1"][0].weight, atol=1e-4)


def test_neighbours_of_one_learning_rate_and_decay_share_a_group_and_no_others_do(tiny, cell):
    a, b, c = {"lr": 1e-2, "weight_decay": 1e-3}, {"lr": 3e-3, "weight_decay": 1e-3}, {"lr": 3e-3, "weight_decay": 0.0}

    def rows(*settings):
        cells = [cell(seed=s, **own) for s, own in enumerate(settings)]
        made = fleet.Fleet(tiny(), cells, [tiny().data(one) for one in cells], torch.device("cpu"))
        for group in made.optimiser.param_groups:
            mine = [(one.settings["lr"], one.settings["weight_decay"]) for one in cells[group["rows"]]]
            assert set(mine) == {(group["lr"], group["weight_decay"])}
        return [(group["rows"].start, group["rows"].stop) for group in made.optimiser.param_groups]

    assert rows(a, a, a) == [(0, 3)]
    assert rows(a, a, b, c, c, a) == [(0, 2), (2, 3), (3, 5), (5, 6)]


def test_settings_that_alternate_train_each_cell_with_its_own(tiny, cell):
    own = [(1e-2, 1e-3), (3e-3, 0.0), (1e-2, 1e-3), (1e-2, 1e-3), (3e-3, 0.0), (3e-3, 1e-1)]
    cells = [cell(seed=s, lr=lr, weight_decay=decay) for s, (lr, decay) in enumerate(own)]
    assert_together_is_alone(tiny(), cells)


def test_an_update_is_that_of_torchs_plain_adam_for_every_model_alone(tiny, cell):
    own = [(1e-1, 1e-1), (1e-2, 0.0), (1e-1, 1e-1)]
    cells = [cell(seed=s, lr=lr, weight_decay=decay) for s, (lr, decay) in enumerate(own)]
    made = fleet.Fleet(tiny(), cells, [tiny().data(one) for one in cells], torch.device("cpu"))
    alone = [{name: p[i].clone() for name, p in made.parameters.items()} for i in range(3)]
    plain = [
        torch.optim.Adam(one.values(), lr=lr, weight_decay=decay, foreach=False, fused=False)
        for one, (lr, decay) in zip(alone, own, strict=True)
    ]
    before = {name: p.clone() for name, p in made.parameters.items()}
    for _ in range(5):
        gradient = {name: torch.randn_like(p) for name, p in made.parameters.items()}
        made._update(gradient)
        for i, (one, adam) in enumerate(zip(alone, plain, strict=True)):
            for name, p in one.items():
                p.grad = gradient[name][i]
            adam.step()
    for name, p in made.parameters.items():
        torch.testing.assert_close(p, torch.stack([one[name] for one in alone]))
        assert not torch.allclose(p, before[name], atol=1e-2)
    assert all(p.grad is None for group in made.optimiser.param_groups for p in group["params"])  # no memory is kept


class Shift(nn.Module):
    """Its gradient is one number, expanded."""

    def __init__(self):
        super().__init__()
        self.amounts = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return x + self.amounts.sum()


class Transposed(nn.Module):
    """Its weight is stored the other way round, and so its gradient comes transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) / 3)

    def forward(self, x):
        return (self.weight.t().tanh()[None] * x[:, None]).sum(-1)


@pytest.mark.parametrize("layer", [Shift, Transposed])
def test_a_gradient_is_read_as_what_it_is_however_it_lies_in_memory(tiny, cell, layer):
    class Odd(type(tiny())):
        def model(self, cell, data):
            model = super().model(cell, data)
            model.encoders["x1"].append(layer())
            return model

    cells = three(cell, "vanilla")
    for one, mine in zip(fleet.train(Odd(), cells).learners, cells, strict=True):
        assert_same(one.model, by_hand(Odd(), mine)[0])


def test_all_methods_of_a_seed_see_the_same_batches_in_the_same_order(tiny, cell, monkeypatch):
    seen: dict[str, list] = {}

    class Spy(fleet.Fleet):
        def __init__(self, recipe, *rest):
            super().__init__(recipe, *rest)
            gradient, name = self.gradient, type(self.template.method).__name__

            def spied(parameters, buffers, batch, target, examples, key):
                seen.setdefault(name, []).append((batch["x1"].clone(), target.clone(), key.clone()))
                return gradient(parameters, buffers, batch, target, examples, key)

            self.gradient = spied

    monkeypatch.setattr(fleet, "Fleet", Spy)
    for method in ("vanilla", "confidence", "synib-random"):
        fleet.train(tiny(), [cell(method)])
    first = seen["Vanilla"]
    assert [len(target[0]) for _, target, _ in first] == [16, 16, 8] * 2  # the last, smaller batch counts too
    rows = torch.cat([x[0] for x, _, _ in first[:3]])
    train = tiny().data(cell()).train.modalities["x1"]
    assert torch.equal(rows.sum(1).sort().values, train.sum(1).sort().values)  # an epoch meets every example once
    assert not torch.equal(first[0][0], first[3][0])  # and the next epoch in another order
    for method in ("Confidence", "SynIB"):
        assert all(
            torch.equal(a, b) for x, y in zip(first, seen[method], strict=True) for a, b in zip(x, y, strict=True)
        )
    assert len({key.item() for _, _, key in first}) == 6  # every step draws afresh


def test_neighbours_do_not_change_a_cells_draws(tiny, cell):
    """The same cell first among two, and last among four others."""
    mine = cell("synib-random", beta=1.0, seed=7)
    one = fleet.train(tiny(0.2), [mine, cell("synib-random", beta=0.0, seed=1)])
    other = fleet.train(tiny(0.2), [*(cell("synib-random", beta=b, seed=s) for b, s in ((0.2, 3), (1.0, 4))), mine])
    assert_same(one.learners[0], other.learners[-1])
    assert one.metrics[0] == pytest.approx(other.metrics[-1])


def test_training_again_gives_the_same_bytes(tiny, cell):
    first, again = (fleet.train(tiny(), three(cell, "synib-random")) for _ in range(2))
    assert first.metrics == again.metrics
    for a, b in zip(first.learners, again.learners, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_training_neither_reads_nor_moves_torchs_generator(tiny, cell):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = fleet.train(tiny(0.2), [cell("synib-random")])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert_same(first.learners[0], fleet.train(tiny(0.2), [cell("synib-random")]).learners[0])


def test_the_loop_counts_steps_and_epochs_aloud(tiny, cell):
    one = cell(epochs=2)
    data = tiny().data(one)
    heard = []
    fit(
        tiny().method(one, data), tiny().model(one, data), data, lr=1e-2, epochs=2, batch_size=16,
        on_epoch=lambda e: heard.append(f"epoch {e}"), on_step=heard.append,
    )  # fmt: skip
    assert heard == [0, 1, 2, "epoch 0", 3, 4, 5, "epoch 1"]


def test_metrics_are_those_of_the_last_epoch_and_curves_have_every_epoch(tiny, cell):
    passed = []
    trained = fleet.train(tiny(), [cell(epochs=3)], on_epoch=lambda: passed.append(1))
    assert len(passed) == 3
    assert list(trained.metrics[0]) == ["train_accuracy", "validation_accuracy", "test_accuracy"]
    curves = trained.curves[0]
    assert {name: len(curve) for name, curve in curves.items()} == {"train_accuracy": 3, "validation_accuracy": 3}
    assert all(trained.metrics[0][name] == curve[-1] for name, curve in curves.items())


def test_without_curves_the_same_models_come_out_and_are_looked_at_once(tiny, cell, monkeypatch):
    class Quiet(type(tiny())):
        curves = False

    looked, accuracies = [], fleet.Fleet.accuracies

    def spied(self, split, name, *rest):
        looked.append(name)
        return accuracies(self, split, name, *rest)

    monkeypatch.setattr(fleet.Fleet, "accuracies", spied)
    cells, passed = [cell("synib-random", seed=s, epochs=3) for s in range(2)], []
    quiet = fleet.train(Quiet(), cells, on_epoch=lambda: passed.append(1))
    assert looked == ["train_accuracy", "validation_accuracy", "test_accuracy"]
    assert len(passed) == 3
    looked.clear()
    loud = fleet.train(tiny(), cells)
    assert looked == ["train_accuracy", "validation_accuracy"] * 3 + ["test_accuracy"]
    assert quiet.curves == [{}, {}]
    assert quiet.metrics == loud.metrics
    for a, b in zip(quiet.learners, loud.learners, strict=True):
        assert_same(a, b)


def test_a_shortcut_is_taken_and_gone_at_test(tiny, cell):
    metrics = fleet.train(tiny(), [cell(beta=2.0, epochs=5)]).metrics[0]
    assert metrics["train_accuracy"] == 1.0
    assert metrics["validation_accuracy"] == 1.0
    assert metrics["test_accuracy"] < 0.75


def test_groups_get_accuracies_of_their_own_and_an_empty_one_has_none(tiny, cell):
    class Grouped(type(tiny())):
        def data(self, cell):
            made = super().data(cell)

            def grouped(split):
                first = torch.arange(len(split)) < 10
                return Split(
                    split.modalities, split.target, {"first": first, "rest": ~first, "none": torch.zeros_like(first)}
                )

            return dataclasses.replace(
                made, train=grouped(made.train), validation=grouped(made.validation), test=grouped(made.test)
            )

    trained = fleet.train(Grouped(), [cell(), cell(seed=1)])
    for metrics, curves in zip(trained.metrics, trained.curves, strict=True):
        parts = 10 * metrics["test_accuracy_first"] + 54 * metrics["test_accuracy_rest"]
        assert parts == pytest.approx(64 * metrics["test_accuracy"], abs=1e-4)
        assert metrics["test_accuracy_none"] != metrics["test_accuracy_none"]  # NaN
        assert len(curves["validation_accuracy_first"]) == 2


def test_cells_with_splits_of_different_sizes_are_refused_with_the_sizes(tiny, cell):
    class Uneven(type(tiny())):
        def data(self, cell):
            made = super().data(cell)
            shorter = Split({n: x[:30] for n, x in made.train.modalities.items()}, made.train.target[:30])
            return dataclasses.replace(made, train=shorter) if cell.seed else made

    with pytest.raises(ValueError, match=r"splits of one size; got \[30, 40\]"):
        fleet.train(Uneven(), [cell(), cell(seed=1)])


def test_the_trained_model_is_an_ordinary_module(tiny, cell):
    trained = fleet.train(tiny(), [cell(), cell(seed=1)])
    data = tiny().data(cell(seed=1))
    model = trained.learners[1].model
    assert isinstance(model, FusionModel)
    with torch.no_grad():
        hits = (model(data.test.modalities).flatten() > 0).long() == data.test.target
    assert hits.double().mean().item() == pytest.approx(trained.metrics[1]["test_accuracy"])


@pytest.fixture
def gpu(monkeypatch):
    """A CUDA device of 10 000 bytes with 1 000 in use, where training a model takes 50; what was trained is noted."""
    state = SimpleNamespace(total=10_000, used=1_000, each=50, peak=9_999, cached=0, trained=[])

    def train(recipe, cells, device="cpu", on_epoch=lambda: None, precision="float32"):
        state.trained.append((list(cells), device, precision))
        state.cached = state.each * len(cells)  # torch keeps what it was given until it is told otherwise
        state.peak = max(state.peak, state.used + state.cached)

    monkeypatch.setattr(fleet, "train", train)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: state.used)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: state.peak)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: setattr(state, "peak", state.used))
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda device: (state.total - state.used - state.cached, state.total)
    )
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: setattr(state, "cached", 0))
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    return state


@pytest.mark.parametrize("count", [1, 3, 4, 50])
def test_capacity_is_what_the_free_memory_holds_of_what_one_model_takes(tiny, cell, gpu, count):
    cells = [cell(seed=s) for s in range(count)]
    assert fleet.capacity(tiny(), cells, "cuda", "float32") == 153  # 0.85 · 9 000 / 50
    assert gpu.cached == 0


def test_capacity_is_measured_on_a_few_models_in_an_epoch_of_the_runs_own_precision(tiny, cell, gpu):
    cells = [cell(seed=s, epochs=40) for s in range(9)]
    fleet.capacity(tiny(), cells, "cuda:1", "tf32")
    ((few, device, precision),) = gpu.trained
    assert (torch.device(device), precision) == (torch.device("cuda:1"), "tf32")
    assert few == [cell(seed=s, epochs=1) for s in range(fleet.PROBED)]
    assert [one.settings["epochs"] for one in cells] == [40] * 9


@pytest.mark.parametrize("each", [7_651, 20_000])
def test_capacity_is_at_least_one(tiny, cell, gpu, each):
    gpu.each, gpu.total = each, 10_000
    assert fleet.capacity(tiny(), [cell()], "cuda", "float32") == 1


def test_on_a_cpu_capacity_is_a_number_and_nothing_is_trained(tiny, cell, gpu):
    assert fleet.capacity(tiny(), [cell()], "cpu", "float32") == fleet.ON_CPU == 24
    assert gpu.trained == []


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_precision_holds_in_training_only(tiny, cell, monkeypatch, precision):
    seen, epoch, accuracies = [], fleet.Fleet.epoch, fleet.Fleet.accuracies

    def now():
        return torch.is_autocast_enabled("cpu"), torch.get_float32_matmul_precision()

    def watched(plain, what):
        def call(*arguments):
            seen.append((what, now()))
            return plain(*arguments)

        return call

    monkeypatch.setattr(fleet.Fleet, "epoch", watched(epoch, "training"))
    monkeypatch.setattr(fleet.Fleet, "accuracies", watched(accuracies, "evaluation"))
    before = now()
    fleet.train(tiny(), [cell(epochs=1)], precision=precision)
    assert dict(seen) == {
        "training": (True, "highest") if precision == "bf16" else (False, "high"),
        "evaluation": before,
    }
    assert now() == before


def test_a_precision_ends_with_the_training_that_failed(tiny, cell, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(fleet.Fleet, "epoch", fail)
    with pytest.raises(torch.OutOfMemoryError):
        fleet.train(tiny(), [cell()], precision="tf32")
    assert torch.get_float32_matmul_precision() == "highest"
