"""Additive fusion: a sum of what heads say, trained as one model."""

import torch

from synib import Bernoulli, FusionModel
from synib.data import Dataset, Split
from synib.methods import Additive
from synib.training import backward
from synib.training.loop import fit


def data(rows=400, seed=0):
    rng = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(rows, 3, generator=rng) for _ in range(2))
    return {"a": a, "b": b}


def trained(method, label, seed=0):
    x = data(seed=seed)
    split = Split(x, label(x))
    torch.manual_seed(0)
    model = FusionModel.mlp({"a": 3, "b": 3}, hidden=[32], classes=1, head_hidden=[], detach_heads=True)
    fit(method, model, Dataset(split, split, None), lr=1e-2, weight_decay=1e-3, epochs=40, batch_size=50)
    test = data(rows=1000, seed=seed + 1)
    return ((method.predict(model, test) > 0).squeeze(1) == label(test).squeeze(1).bool()).float().mean()


def add(x):
    return (x["a"][:, :1] + x["b"][:, :1] > 0).float()


def interact(x):
    return (x["a"][:, :1] * x["b"][:, :1] > 0).float()


def test_it_answers_with_the_sum_of_the_heads_and_trains_nothing_else():
    model = FusionModel.mlp({"a": 3, "b": 3}, hidden=[5], classes=2, head_hidden=[], detach_heads=True)
    x = data(rows=6)
    method = Additive()
    said = method.predict(model, x)
    parts = [model.head(name, model.encode(name, x[name])) for name in "ab"]
    assert torch.equal(said, parts[0] + parts[1])
    backward(method, model, x, torch.arange(6) % 2)
    with_gradient = {name for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradient == {n for n, _ in model.named_parameters() if not n.startswith("fusion.")}
    assert all(model.get_parameter(name).grad.abs().sum() > 0 for name in with_gradient)


def test_it_learns_the_sign_of_a_sum_and_no_interaction():
    assert trained(Additive(family=Bernoulli()), add) > 0.93
    assert trained(Additive(family=Bernoulli()), interact) < 0.6
