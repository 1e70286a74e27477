"""Models trained together are the models they would have been alone."""

import dataclasses

import pytest
import torch
from torch import nn

from synib.training import batches, fleet
from synib.training.loop import fit
from synib.training.stacked import StackedModels


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


# Noises, latents, classes, chosen modalities and schedules: (method, settings, rate of dropout). Methods without any of it are
# the subject of tests/properties/test_trainers.py.
FORMS = {
    "dropout": ("vanilla", {}, 0.3),
    "learned and dropout": ("synib-learned", {}, 0.3),
    "matched": ("synib-random", {"noise": "matched"}, 0.3),
    "shuffled": ("synib-random", {"noise": "shuffled"}, 0.0),
    "matched latents": ("synib-random", {"noise": "matched", "space": "latents"}, 0.3),
    "within classes": ("synib-random", {"p": 1.0, "noise": "class-shuffled", "draws": 3}, 0.3),
    "latents within classes": ("synib-random", {"p": 1.0, "noise": "class-shuffled", "space": "latents"}, 0.0),
    "learned on latents": ("synib-learned", {"noise": "matched", "space": "latents"}, 0.0),
    "one modality": ("synib-marginal", {"corrupt": ["x2"]}, 0.0),
    "warmed up": ("synib-random", {"weight_schedule": "warmup", "weight_steps": 4}, 0.0),
    "annealed": ("confidence", {"weight_schedule": "anneal", "weight_steps": 4}, 0.0),
    "unimodal reference": ("synib-marginal", {"reference": "unimodal"}, 0.0),
    "experts": ("experts", {"space": "latents", "weight_schedule": "anneal", "weight_steps": 4}, 0.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_cells_trained_together_equal_each_cell_in_an_ordinary_pytorch_loop(tiny, cell, form):
    method, settings, dropout = FORMS[form]
    recipe, cells = tiny(dropout), three(cell, method, **settings)
    trained = fleet.train(recipe, cells)
    for one, metrics, mine in zip(trained.learners, trained.metrics, cells, strict=True):
        model, own, data = by_hand(recipe, mine)
        assert_same(one.model, model)
        assert_same(one.method, own)
        for part, name in ((data.train, "train"), (data.validation, "validation"), (data.test, "test")):
            with torch.no_grad():
                hits = (own.predict(model, part.modalities).flatten() > 0).long() == part.target
            assert metrics[f"{name}_accuracy"] == pytest.approx(hits.double().mean().item(), abs=1e-6)


@pytest.mark.parametrize("form", ["one modality", "warmed up", "matched latents"])
def test_a_form_is_something_else_than_the_method_without_it(tiny, cell, form):
    method, settings, _ = FORMS[form]
    one, other = (fleet.train(tiny(), [cell(method, **s)]).learners[0] for s in (settings, {}))
    name = "encoders.x1.0.weight"
    assert not torch.allclose(one.model.state_dict()[name], other.model.state_dict()[name], atol=1e-4)


@pytest.mark.parametrize(
    ("method", "name", "value"), [("synib-random", "weight", 20.0), ("synib-learned", "sparsity", 100.0)]
)
def test_each_cell_is_trained_with_its_own_setting(tiny, cell, method, name, value):
    base = cell(method, epochs=3)
    changed = dataclasses.replace(base, settings={**base.settings, name: value})
    one, other, again = fleet.train(tiny(), [base, changed, base]).learners
    assert_same(one, again)
    assert not torch.allclose(one.model.encoders["x1"][0].weight, other.model.encoders["x1"][0].weight, atol=1e-4)


def test_methods_are_made_once_for_cells_that_differ_in_the_optimiser_only_and_each_has_its_own_buffers(tiny, cell):
    made = []

    class Counting(type(tiny())):
        def method(self, of, data):
            made.append(of)
            return super().method(of, data)

    recipe, same = Counting(), tiny().data(cell())
    settings = [{"lr": lr, "weight": weight} for lr in (1e-2, 1e-3) for weight in (0.5, 1.5, 2.5)]
    cells = [cell("confidence", seed=seed, **own) for seed in (0, 1) for own in settings]
    models = StackedModels(recipe, cells, [same] * len(cells), torch.device("cpu"))
    assert models.buffers["method.weight.weight"].tolist() == [own["weight"] for own in settings] * 2
    # Of each seed one with each weight; the others are compared with the template and with a changed setting.
    assert len(made) < len(cells)
    made.clear()
    StackedModels(recipe, cells, [tiny().data(c) for c in cells], torch.device("cpu"))  # data of their own
    assert len(made) >= len(cells)


def test_neighbours_of_one_learning_rate_and_decay_share_a_group_and_no_others_do(tiny, cell):
    a, b, c = {"lr": 1e-2, "weight_decay": 1e-3}, {"lr": 3e-3, "weight_decay": 1e-3}, {"lr": 3e-3, "weight_decay": 0.0}

    def rows(*settings):
        cells = [cell(seed=s, **own) for s, own in enumerate(settings)]
        made = StackedModels(tiny(), cells, [tiny().data(one) for one in cells], torch.device("cpu"))
        for rows, *settings in made.optimiser.groups:
            assert {(one.settings["lr"], one.settings["weight_decay"]) for one in cells[rows]} == {tuple(settings)}
        return [(rows.start, rows.stop) for rows, *_ in made.optimiser.groups]

    assert rows(a, a, a) == [(0, 3)]
    assert rows(a, a, b, c, c, a) == [(0, 2), (2, 3), (3, 5), (5, 6)]


def test_an_update_is_that_of_torchs_plain_adam_for_every_model_alone(tiny, cell):
    own = [(1e-1, 1e-1), (1e-2, 0.0), (1e-1, 1e-1)]
    cells = [cell(seed=s, lr=lr, weight_decay=decay) for s, (lr, decay) in enumerate(own)]
    made = StackedModels(tiny(), cells, [tiny().data(one) for one in cells], torch.device("cpu"))
    alone = [{name: p[i].clone() for name, p in made.parameters.items()} for i in range(3)]
    plain = [
        torch.optim.Adam(one.values(), lr=lr, weight_decay=decay, foreach=False, fused=False)
        for one, (lr, decay) in zip(alone, own, strict=True)
    ]
    before = {name: p.clone() for name, p in made.parameters.items()}
    for _ in range(5):
        gradient = {name: torch.randn_like(p) for name, p in made.parameters.items()}
        made.optimiser.step(gradient)
        for i, (one, adam) in enumerate(zip(alone, plain, strict=True)):
            for name, p in one.items():
                p.grad = gradient[name][i]
            adam.step()
    for name, p in made.parameters.items():
        torch.testing.assert_close(p, torch.stack([one[name] for one in alone]))
        assert not torch.allclose(p, before[name], atol=1e-2)


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

    class Spy(StackedModels):
        def step(self, batch, target, examples, key):
            name = type(self.template.method).__name__
            seen.setdefault(name, []).append((batch["x1"].clone(), target.clone(), key.clone()))
            super().step(batch, target, examples, key)

    monkeypatch.setattr(fleet, "StackedModels", Spy)
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


def test_examples_too_many_to_be_put_in_order_at_once_give_the_same_models(tiny, cell, monkeypatch):
    cells = three(cell, "synib-random")
    first = fleet.train(tiny(0.5), cells)
    monkeypatch.setattr(batches, "ORDERED", 0)
    second = fleet.train(tiny(0.5), cells)
    assert first.metrics == second.metrics
    for one, other in zip(first.learners, second.learners, strict=True):
        assert all(
            torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
        )
