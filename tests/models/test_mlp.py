import pytest
import torch
from torch import nn

from synib import keys
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


def test_an_mlp_computes_what_its_layers_say():
    network = mlp([2, 3, 4])
    x = torch.randn(5, 2)
    torch.testing.assert_close(network(x), network[2](network[0](x).clamp(min=0)))


def test_dropout_drops_a_fraction_and_keeps_the_mean():
    x = torch.ones(200, 100)
    dropped = Dropout(0.3)(x)
    assert (dropped == 0).float().mean() == pytest.approx(0.3, abs=0.01)
    torch.testing.assert_close(dropped[dropped > 0].unique(), torch.tensor([1 / 0.7]))


def test_dropout_follows_its_key_and_moves_it_on():
    x = torch.ones(4, 8)
    first, second = Dropout(0.5), Dropout(0.5)
    first.key = second.key = keys.key(3)
    assert torch.equal(first(x), second(x))
    assert torch.equal(first.key, second.key)
    assert not torch.equal(first.key, keys.key(3))
    assert not torch.equal(Dropout.forward(first, x), x)
    assert not torch.equal(first(x), second(x))


def test_dropout_does_nothing_in_evaluation_mode():
    layer = Dropout(0.5).eval()
    key = layer.key.clone()
    x = torch.ones(4, 8)
    assert layer(x) is x
    assert torch.equal(layer.key, key)


def test_dropout_takes_its_key_from_torchs_seed_and_keeps_it_out_of_the_state():
    torch.manual_seed(1)
    first = Dropout(0.5)
    torch.manual_seed(1)
    assert torch.equal(first.key, Dropout(0.5).key)
    assert not first.state_dict()


def test_dropout_under_vmap_equals_dropout_alone():
    x = torch.randn(3, 4, 5)
    many = torch.stack([keys.key(seed) for seed in range(3)])
    layer = Dropout(0.5)

    def drop(key, x):
        return torch.func.functional_call(layer, {"key": key}, (x,))

    together = torch.func.vmap(drop)(many, x)
    assert torch.equal(together, torch.stack([drop(key, row) for key, row in zip(many, x, strict=True)]))


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_dropping_everything_is_refused(p):
    with pytest.raises(ValueError, match=f"dropout is a number of at least 0 and below 1; got {p}"):
        Dropout(p)


def test_gradients_flow_only_through_what_was_kept():
    layer = Dropout(0.5)
    x = torch.ones(4, 8, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert isinstance(layer, nn.Module)
