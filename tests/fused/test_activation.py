"""The fused activation: what a perceptron's layers compute, alone, for many models, and in the search of learned masks."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, vjp, vmap

from synib import fused, keys
from synib.fused import activation
from synib.masks.slope import LayerSlope
from synib.models import Dropout
from synib.models.mlp import mlp, perceptron_layers

MODELS = 4
either_layout = pytest.mark.parametrize("columns", [False, True])


@pytest.fixture
def everywhere(monkeypatch):
    """``everywhere(True)`` lets perceptrons use the operations on a CPU, too."""
    return lambda on: monkeypatch.setattr(fused, "applies", lambda x: on)


def parameters(net):
    torch.manual_seed(0)
    return {name: torch.randn(MODELS, *p.shape) for name, p in net.named_parameters()}


def value_and_gradient(net, x):
    """For many models at once, as in a step of the fleet; dropout follows a key."""
    for layer in net.modules():
        if isinstance(layer, Dropout):
            layer.key = keys.key(3)

    def of_model(p, x):
        value, pull = vjp(lambda p, x: functional_call(net, p, (x,)).square().sum(), p, x)
        return value, pull(torch.ones(()))

    return vmap(of_model)(parameters(net), x)


@pytest.mark.parametrize(
    "layers",
    [
        {},
        {"dropout": 0.5},
        {"dropout": [0.3, 0.0], "last_activation": True},
        {"dropout": 0.5, "first_activation": True},
    ],
    ids=str,
)
def test_many_perceptrons_compute_what_their_layers_compute(everywhere, layers):
    widths = [7, 9, 8] if "last_activation" in layers else [7, 9, 8, 2]
    net, x = mlp(widths, **layers), torch.randn(MODELS, 5, 7)
    everywhere(False)
    value, (of_parameters, of_inputs) = value_and_gradient(net, x)
    everywhere(True)
    ours, (our_parameters, our_inputs) = value_and_gradient(net, x)
    assert torch.equal(ours, value)
    torch.testing.assert_close(our_inputs, of_inputs)
    for name, gradient in of_parameters.items():
        torch.testing.assert_close(our_parameters[name], gradient)
        assert our_parameters[name].is_contiguous()  # or the optimiser would copy it


def test_a_layer_with_a_hook_is_called(everywhere):
    net, seen = mlp([3, 4, 2]), []
    net[1].register_forward_hook(lambda *call: seen.append(call[0]))
    everywhere(True)
    net(torch.randn(5, 3))
    assert seen == [net[1]]


@either_layout
@pytest.mark.parametrize("biased", [False, True])
def test_gradients_are_those_of_autograd(columns, biased):
    torch.manual_seed(0)
    x, bias = torch.randn(6, 4, requires_grad=True), torch.randn(6 if columns else 4, requires_grad=True)
    dropped = torch.rand(6, 4) < 0.3
    own = bias if biased else None
    y = fused.relu_dropout(x, own, dropped, 0.3, columns)
    added = x if own is None else x + (bias[:, None] if columns else bias)
    expected = torch.where(dropped, 0.0, added.relu() / 0.7)
    assert torch.equal(y, expected)
    inputs = [x, bias] if biased else [x]
    for mine, theirs in zip(*(torch.autograd.grad(z.square().sum(), inputs) for z in (y, expected)), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("rows", [5, 129])
def test_a_search_with_examples_as_columns_finds_the_same_slope(everywhere, rows):
    net = mlp([7, 9, 8, 1])
    layers = perceptron_layers([net])
    x, y = torch.randn(MODELS, rows, 7), torch.randint(2, (MODELS, rows)).float()

    def slopes():
        class Search(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, x, y):
                def loss(output):
                    return F.binary_cross_entropy_with_logits(output[:, 0], y, reduction="none")

                with torch.no_grad():
                    return LayerSlope(layers, loss)(x)

        own = {f"net.{name}": p for name, p in parameters(net).items()}
        return vmap(lambda p, x, y: functional_call(Search(), p, (x, y)))(own, x, y)

    everywhere(False)
    expected = slopes()
    everywhere(True)
    torch.testing.assert_close(slopes(), expected)
    assert expected.abs().sum() > 0


@either_layout
def test_models_that_share_inputs_or_biases_are_computed_as_if_each_had_its_own(columns):
    x, bias = torch.randn(6, 4), torch.randn(MODELS, 6 if columns else 4)
    many = vmap(lambda b: fused.relu_dropout(x, b, columns=columns))(bias)
    for one, b in zip(many, bias, strict=True):
        assert torch.equal(one, fused.relu_dropout(x, b, columns=columns))
    of_inputs = vmap(lambda x: fused.relu_dropout(x, bias[0], columns=columns))(torch.stack([x, -x]))
    assert torch.equal(of_inputs[1], fused.relu_dropout(-x, bias[0], columns=columns))


def test_it_is_not_used_outside_of_vmap_or_on_a_cpu(monkeypatch):
    assert not activation.applies(torch.randn(3))
    used = []
    vmap(lambda x: used.append(activation.applies(x)) or x)(torch.randn(2, 3))
    assert used == [False]


def test_transposing_under_vmap_is_that_of_every_matrix():
    x = torch.randn(MODELS, 5, 7)
    assert torch.equal(vmap(fused.transposed)(x), x.mT)
    assert vmap(fused.transposed)(x).is_contiguous()
