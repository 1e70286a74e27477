"""Product of experts and learned mixin: what is added to the fusion's logits, and who is trained when."""

import pytest
import torch
import torch.nn.functional as F

from synib import Bernoulli, Categorical, FusionModel, methods
from synib.studies.spurious_xor.data import parity
from synib.training.loop import fit

X = {"a": torch.linspace(-1, 1, 50).view(10, 5), "b": torch.linspace(2, -1, 40).view(10, 4)}


def attached(name, classes=3, **settings):
    model = FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], classes=classes, head_hidden=[], dropout=0.5)
    family = Bernoulli() if classes == 1 else Categorical()
    method = methods.build(name, ahead=1, family=family, unimodal_weight=0.0, **settings)
    method.attach(model)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    model.eval()  # of the model; the copies ignore dropout by themselves
    method.begin(1)
    return model, method


def alone(method):
    """What the unimodal models say."""
    apart = method.apart.eval()
    with torch.no_grad():
        return {name: apart.head(name, apart.encode(name, x)) for name, x in X.items()}


@pytest.mark.parametrize("classes", [1, 3])
def test_the_product_adds_the_unimodal_logits_to_the_fusions(classes):
    model, method = attached("product-of-experts", classes)
    y = torch.arange(10) % max(classes, 2)
    loss, _ = method(model, X, y)
    own = alone(method)
    torch.testing.assert_close(loss, method.family.nll(model(X) + own["a"] + own["b"], y).mean())
    torch.testing.assert_close(method.predict(model, X), model(X))  # which answers without them


def test_the_learned_mixin_scales_them_by_the_latents_and_rewards_a_certain_mixture():
    model, method = attached("learned-mixin", entropy=0.7)
    with torch.no_grad():
        method.mix.weight.normal_()
    y = torch.arange(10) % 3
    loss, parts = method(model, X, y)
    z = torch.cat([model.encode(name, X[name]) for name in "ab"], 1)
    gates = F.softplus(method.mix(z))
    own = alone(method)
    biased = gates[:, :1] * own["a"] + gates[:, 1:] * own["b"]
    log_q = biased.log_softmax(1)
    entropy = -(log_q.exp() * log_q).sum(1).mean()
    expected = F.cross_entropy(model(X) + biased, y) + 0.7 * (entropy - torch.tensor(3.0).log())
    torch.testing.assert_close(loss, expected)
    assert float(parts["gate/a"]) == pytest.approx(gates[:, 0].mean().item())


@pytest.mark.parametrize("name", ["product-of-experts", "learned-mixin"])
def test_unimodal_models_are_trained_first_and_stay_when_the_model_begins(name):
    data = parity(2, 1.0, train=40, validation=16, test=16)

    def trained(epochs):
        torch.manual_seed(0)
        model = FusionModel.mlp(data.widths, hidden=[8], head_hidden=[])
        begin = [p.detach().clone() for p in model.parameters()]
        method = methods.build(name, ahead=2, family=Bernoulli())
        fit(method, model, data, lr=1e-2, epochs=epochs, batch_size=16)
        return begin, list(model.parameters()), list(method.apart.parameters())

    begin, after, apart = trained(2)
    assert all(torch.equal(p, q) for p, q in zip(begin, after, strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(begin, apart, strict=False))
    _, moved, still = trained(4)
    assert not any(torch.equal(p, q) for p, q in zip(begin, moved, strict=True))
    torch.testing.assert_close(still, apart)


def test_what_the_unimodal_models_explain_moves_the_fusion_less():
    """An example that they get right with certainty has no gradient left for the fusion."""
    model, method = attached("product-of-experts", 1)
    with torch.no_grad():
        method.apart.heads["a"][0].weight.zero_()
        method.apart.heads["a"][0].bias.fill_(50.0)
    method(model, X, torch.ones(10, dtype=torch.long))[0].backward()
    assert all(p.grad is None or p.grad.abs().max() < 1e-6 for p in model.fusion.parameters())
    method(model, X, torch.zeros(10, dtype=torch.long))[0].backward()
    assert max(p.grad.abs().max() for p in model.fusion.parameters()) > 1e-2
