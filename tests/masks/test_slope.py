"""The written-out gradient through linear layers and ReLUs is autograd's."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

import synib
from synib import keys
from synib.masks.slope import LayerSlope, value_and_slope
from synib.models import Dropout

SHAPES = {
    "perceptron": lambda: [nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 7), nn.ReLU(), nn.Linear(7, 3)],
    "without bias": lambda: [nn.Linear(5, 7, bias=False), nn.ReLU(), nn.Linear(7, 3)],
    "linear": lambda: [nn.Linear(5, 3)],
    "ReLU first and last": lambda: [nn.ReLU(), nn.Linear(5, 4), nn.Linear(4, 3), nn.ReLU()],
}


def loss(output):
    return output.square().sum(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_autograds_gradient_bit_for_bit_in_every_call(shape):
    layers = SHAPES[shape]()
    network, slope = nn.Sequential(*layers), LayerSlope(layers, loss)
    first = None
    for _ in range(3):
        x = torch.randn(6, 5)
        expected = value_and_slope(lambda v: loss(network(v)).sum(), x)[1]
        before = x.clone()
        with torch.no_grad():
            gradient = slope(x)
        assert torch.equal(gradient, expected)
        assert torch.equal(x, before)
        first = (gradient, expected) if first is None else first
    assert torch.equal(*first)  # a result does not change in later calls


@pytest.mark.parametrize("shape", SHAPES)
def test_under_vmap_it_is_that_of_each_model(shape):
    network = nn.Sequential(*SHAPES[shape]())
    state = {name: torch.randn(4, *p.shape) for name, p in network.named_parameters()}
    x = torch.randn(4, 6, 5)

    def one(parameters, x):
        def call(x):
            return LayerSlope(list(network), loss)(x)

        with torch.no_grad():
            return functional_call(Calling(network, call), {f"network.{k}": v for k, v in parameters.items()}, (x,))

    gradients = vmap(one)(state, x)
    for i in range(4):
        alone = {name: p[i] for name, p in state.items()}
        expected = value_and_slope(lambda v, own=alone: loss(functional_call(network, own, (v,))).sum(), x[i])[1]
        torch.testing.assert_close(gradients[i], expected)


class Calling(nn.Module):
    """A function that runs while ``functional_call`` has substituted a network's parameters."""

    def __init__(self, network, function):
        super().__init__()
        self.network, self.function = network, function

    def forward(self, x):
        return self.function(x)


def model(**changes):
    torch.manual_seed(0)
    return synib.FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], head_hidden=[6], **changes)


def test_a_perceptron_with_dropout_has_layers_in_evaluation_mode_only():
    dropped = model(dropout=0.5)
    assert dropped.unimodal_layers("a") is None
    kinds = [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in dropped.eval().unimodal_layers("a")] == kinds
    assert [type(layer) for layer in dropped.on_latents().unimodal_layers("a")] == kinds[2:]
    assert any(isinstance(layer, Dropout) for layer in dropped.modules())


def _hooked(m):
    m.heads["a"][0].register_forward_hook(lambda *_: None)


def _replaced(m):
    m.encoders["a"].forward = lambda x: x


def _other(m):
    m.encoders["a"].append(nn.Tanh())


def _lora(m):
    m.encoders["a"][0] = nn.utils.parametrizations.weight_norm(m.encoders["a"][0])


@pytest.mark.parametrize("change", [_hooked, _replaced, _other, _lora])
def test_a_model_that_computes_more_than_its_layers_has_none(change):
    changed = model().eval()
    assert changed.unimodal_layers("a") is not None
    change(changed)
    assert changed.unimodal_layers("a") is None
    assert changed.unimodal_layers("b") is not None


def test_a_subclass_of_the_model_has_none_because_it_may_encode_differently():
    class Shifted(synib.FusionModel):
        def encode(self, name, x):
            return super().encode(name, x + 1)

    plain = model().eval()
    assert (
        Shifted(dict(plain.encoders.items()), plain.fusion, dict(plain.heads.items())).eval().unimodal_layers("a")
        is None
    )


@pytest.mark.parametrize("latents", [False, True])
def test_a_step_with_learned_masks_is_the_same_without_it_bit_for_bit(monkeypatch, latents):
    def gradients():
        fused = model(dropout=0.3)
        batch = {"a": torch.randn(6, 5, generator=torch.Generator().manual_seed(1)), "b": torch.ones(6, 4)}
        objective = synib.SynIB(synib.LearnedMask(steps=3), family=synib.Bernoulli())
        seen = fused.on_latents() if latents else fused
        loss, _ = objective(seen, fused.encode_all(batch) if latents else batch, torch.arange(6) % 2, key=keys.key(3))
        loss.backward()
        return [p.grad for p in fused.parameters()]

    torch.manual_seed(5)
    fast = gradients()
    torch.manual_seed(5)
    for kind in (synib.FusionModel, type(model().on_latents())):
        monkeypatch.setattr(kind, "unimodal_layers", lambda self, name: None)
    assert all(torch.equal(a, b) for a, b in zip(fast, gradients(), strict=True))
