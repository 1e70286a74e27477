import pytest
import torch
import torch.nn.functional as F
from torch import nn

from synib import AmortizedMask, FusionModel, StandardNoise, SynIB, Tokens, keys
from synib.masks import Probe


def probe_of(x, loss, name="a"):
    return Probe(name, lambda key: StandardNoise()(x, key), loss)


def toy():
    """Six coordinates of which the predictor reads the first."""
    target = torch.arange(64) % 2
    x = torch.randn(64, 6)
    x[:, 0] = 3.0 * (2 * target - 1)
    predictor = nn.Linear(6, 1, bias=False)
    with torch.no_grad():
        predictor.weight.copy_(torch.tensor([[2.0, 0, 0, 0, 0, 0]]))

    def loss(v):
        return F.binary_cross_entropy_with_logits(predictor(v).squeeze(-1), target.float(), reduction="none")

    return x, predictor, loss


def test_its_loss_reaches_its_own_network_and_nothing_else(key):
    x, predictor, loss = toy()
    x.requires_grad_()
    mask = AmortizedMask({"a": 6}, hidden=8)
    own = mask.loss(x, key, probe_of(x, loss))
    strangers = torch.autograd.grad(own, [x, *predictor.parameters()], retain_graph=True, allow_unused=True)
    assert strangers == (None, None)
    assert all(g.abs().sum() > 0 for g in torch.autograd.grad(own, list(mask.parameters())))


def test_its_gradient_is_that_of_a_straight_through_gate(key):
    x, _, loss = toy()
    mask = AmortizedMask({"a": 6}, hidden=8, sparsity=0.1, temperature=0.7)
    own = torch.autograd.grad(mask.loss(x, key, probe_of(x, loss)), list(mask.parameters()))

    u = keys.uniform(keys.fold(key, "gumbel"), x.shape)
    soft = torch.sigmoid((mask.networks["a"](x) + torch.log(u / (1 - u))) / 0.7)
    gate = (soft > 0.5).float() + soft - soft.detach()
    corrupted = (1 - gate) * x + gate * StandardNoise()(x, keys.fold(key, "fill"))
    explicit = (0.1 * gate.sum(1) - loss(corrupted)).mean()
    torch.testing.assert_close(mask.loss(x, key, probe_of(x, loss)), explicit)
    for a, b in zip(own, torch.autograd.grad(explicit, list(mask.parameters())), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_trained_on_a_toy_it_raises_the_masked_loss_and_finds_the_coordinate(key):
    x, _, loss = toy()
    mask = AmortizedMask({"a": 6}, hidden=8, sparsity=0.05)
    nn.init.constant_(mask.networks["a"][-1].bias, -1.0)  # begins by finding little
    adam = torch.optim.Adam(mask.parameters(), lr=0.05)

    def masked_loss():
        found = ~mask(x, key, probe_of(x, loss))
        return loss(torch.where(found, StandardNoise()(x, key), x)).mean().item()

    before = masked_loss()
    for step in range(60):
        adam.zero_grad()
        mask.loss(x, keys.fold(key, step), probe_of(x, loss)).backward()
        adam.step()
    found = (~mask(x, key, probe_of(x, loss))).float().mean(0)
    assert masked_loss() > 2 * before + 0.5
    assert found[0] > 0.95
    assert found[1:].max() < 0.1


def test_the_objective_trains_it_beside_the_model_without_changing_the_value(key):
    widths = {"a": 5, "b": 4}
    model = FusionModel.mlp(widths, hidden=[6], classes=3, head_hidden=[])
    x, target = {name: torch.randn(8, width) for name, width in widths.items()}, torch.arange(8) % 3
    objective = SynIB(AmortizedMask(widths, hidden=8), StandardNoise(), weight=2.0)
    loss, parts = objective(model, x, target, key=key)
    assert {"mask/a", "mask/b"} <= parts.keys()
    value = parts["task"] + 2.0 * (parts["penalty/a"] + parts["penalty/b"]) + parts["unimodal/a"] + parts["unimodal/b"]
    torch.testing.assert_close(loss.detach(), value)
    loss.backward()
    assert all(p.grad.abs().sum() > 0 for p in objective.parameters())

    trained = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    objective.mask.loss = lambda *_: None
    objective(model, x, target, key=key)[0].backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, trained[name])


def test_tokens_are_found_as_a_whole(key):
    x = Tokens(torch.randn(3, 5, 2), torch.zeros(3, 5, dtype=torch.bool))
    mask = AmortizedMask({"a": 2}, over="tokens")
    probe = probe_of(x, lambda v: v.flatten(1).square().sum(1))
    assert mask(x, key, probe).shape == (3, 5, 1)
    assert mask.loss(x, key, probe).isfinite()


@pytest.mark.parametrize(
    ("width", "name", "message"),
    [
        (5, "a", "mask network of 'a' expects width 6, but the modality has width 5"),
        (6, "c", "has networks for 'a', 'b'; got modality 'c'"),
    ],
)
def test_a_modality_that_it_has_no_network_for_is_refused(width, name, message, key):
    x = torch.zeros(2, width)
    with pytest.raises(ValueError, match=message):
        AmortizedMask({"a": 6, "b": 6})(x, key, probe_of(x, torch.sum, name))
