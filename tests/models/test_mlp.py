from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from synib import FusionModel, keys
from synib.models import Dropout, mlp


def kinds(module):
    return [type(layer).__name__ for layer in module]


def test_layers_alternate_with_activations():
    assert kinds(mlp([2, 3, 4])) == ["Linear", "ReLU", "Linear"]
    assert kinds(mlp([2, 3], last_activation=True)) == ["Linear", "ReLU"]
    assert kinds(mlp([2, 3], first_activation=True)) == ["ReLU", "Linear"]
    assert kinds(mlp([2, 3, 4], dropout=0.5)) == ["Linear", "ReLU", "Dropout", "Linear"]
    assert kinds(mlp([2])) == []


def test_each_activation_may_have_a_dropout_of_its_own():
    assert kinds(mlp([2, 3, 4, 5], dropout=[0.5, 0.0])) == ["Linear", "ReLU", "Dropout", "Linear", "ReLU", "Linear"]
    rates = [m.p for m in mlp([2, 3, 4], dropout=[0.1, 0.2], last_activation=True) if isinstance(m, Dropout)]
    assert rates == [0.1, 0.2]
    with pytest.raises(ValueError, match=r"one for each of 2 activations; got \[0.5\]"):
        mlp([2, 3, 4], dropout=[0.5], last_activation=True)


def test_dropout_drops_a_fraction_and_keeps_the_mean():
    x = torch.ones(200, 100)
    dropped = Dropout(0.3)(x)
    assert (dropped == 0).float().mean() == pytest.approx(0.3, abs=0.01)
    torch.testing.assert_close(dropped[dropped > 0].unique(), torch.tensor([1 / 0.7]))


def keyed(p=0.5):
    layer = Dropout(p)
    layer.follow_key()
    return layer


def test_dropout_with_a_key_follows_it_and_moves_it_on():
    x = torch.ones(4, 8)
    first, second = keyed(), keyed()
    first.key = second.key = keys.key(3)
    assert torch.equal(first(x), second(x))
    assert torch.equal(first.key, second.key)
    assert not torch.equal(first.key, keys.key(3))
    first(x)
    assert not torch.equal(first(x), second(x))


@pytest.mark.parametrize("make", [Dropout, keyed])
def test_dropout_does_nothing_in_evaluation_mode_and_is_in_no_state(make):
    layer = make(0.5).eval()
    key = None if layer.key is None else layer.key.clone()
    x = torch.ones(4, 8)
    assert layer(x) is x
    assert layer.key is key or torch.equal(layer.key, key)
    assert not layer.state_dict()


@pytest.mark.parametrize("make", [Dropout, keyed])
def test_torchs_seed_decides_what_dropout_drops(make):
    x, drawn = torch.ones(4, 8), []
    for _ in range(2):
        torch.manual_seed(1)
        layer = make(0.5)
        drawn.append([layer(x) for _ in range(2)])
    assert all(torch.equal(a, b) for a, b in zip(*drawn, strict=True))
    assert not torch.equal(*drawn[0])


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradients_are_exact_under_gradient_checkpointing(use_reentrant):
    model = FusionModel.mlp({"a": 6, "b": 5}, hidden=[32, 16], classes=3, head_hidden=[], dropout=0.5)
    x = {"a": torch.randn(8, 6, requires_grad=True), "b": torch.randn(8, 5, requires_grad=True)}
    gradients = []
    for run in (lambda f, *given: f(*given), partial(checkpoint, use_reentrant=use_reentrant)):
        torch.manual_seed(2)
        latents = {name: run(model.encoders[name], x[name]) for name in x}
        model.fusion(latents).square().sum().backward()
        gradients.append([p.grad for p in (*model.encoders.parameters(), *model.fusion.parameters())])
        model.zero_grad()
    torch.testing.assert_close(*gradients)


def test_dropout_under_vmap_equals_dropout_alone():
    x = torch.randn(3, 4, 5)
    many = torch.stack([keys.key(seed) for seed in range(3)])
    layer = keyed()

    def drop(key, x):
        return torch.func.functional_call(layer, {"key": key}, (x,))

    together = torch.func.vmap(drop)(many, x)
    assert torch.equal(together, torch.stack([drop(key, row) for key, row in zip(many, x, strict=True)]))
