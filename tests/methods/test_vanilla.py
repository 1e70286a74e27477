import pytest
import torch
import torch.nn.functional as F

from synib import FusionModel
from synib.methods import Vanilla


@pytest.mark.parametrize("heads", [None, []])
def test_vanilla_is_cross_entropy_with_the_heads_losses_if_there_are_heads(heads):
    model = FusionModel.mlp({"a": 4, "b": 3}, hidden=[5], classes=3, head_hidden=heads).double()
    x = {"a": torch.randn(6, 4, dtype=torch.float64), "b": torch.randn(6, 3, dtype=torch.float64)}
    y = torch.arange(6) % 3
    loss, parts = Vanilla(unimodal_weight=0.05)(model, x, y)
    expected = F.cross_entropy(model(x), y)
    torch.testing.assert_close(parts["task"], expected.detach())
    for own in model.unimodal(x).values():
        expected = expected + 0.05 * F.cross_entropy(own, y)
    torch.testing.assert_close(loss, expected)
    gradients = (torch.autograd.grad(t, list(model.parameters())) for t in (loss, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_vanilla_takes_a_plain_callable():
    x = {"a": torch.randn(6, 3), "b": torch.randn(6, 3)}
    y = torch.arange(6) % 3
    loss, parts = Vanilla()(lambda m: m["a"] * m["b"], x, y)
    torch.testing.assert_close(loss, F.cross_entropy(x["a"] * x["b"], y))
    assert set(parts) == {"task"}
