"""Additive fusion: a sum of what heads say, trained as one model."""

import torch

from synib import FusionModel
from synib.methods import Additive
from synib.training import backward


def data(rows=400, seed=0):
    rng = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(rows, 3, generator=rng) for _ in range(2))
    return {"a": a, "b": b}


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
