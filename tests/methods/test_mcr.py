import pytest
import torch
import torch.nn.functional as F
from torch import nn

from synib import Bernoulli, Categorical, FusionModel, Tokens, keys
from synib.methods import Vanilla
from synib.methods.mcr import MCR, contrastive
from synib.training import backward

WIDTHS = {"a": 4, "b": 3, "c": 2}
FAMILIES = [(Bernoulli(), 1), (Categorical(), 3)]


def setting(names="ab", classes=3, rows=7):
    widths = {name: WIDTHS[name] for name in names}
    model = FusionModel.mlp(widths, hidden=[5], classes=classes, head_hidden=[]).double()
    x = {name: torch.randn(rows, width, dtype=torch.float64) for name, width in widths.items()}
    return model, x, torch.arange(rows) % max(classes, 2)


def gradients(method, model, x, y, key):
    model.zero_grad()
    backward(method, model, x, y, key=key)
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def game_alone(family, model, x, y, key):
    """What the game adds to the gradient."""
    with_game = gradients(MCR(game=1.0, contrast=0.0, family=family), model, x, y, key)
    return {name: g - v for (name, g), v in zip(
        with_game.items(), gradients(Vanilla(family=family), model, x, y, key).values(), strict=True)}  # fmt: skip


def probabilities(prediction):
    if prediction.shape[1] == 1:
        return torch.cat([torch.sigmoid(prediction), torch.sigmoid(-prediction)], 1)
    return prediction.softmax(1)


def slow_jsd(p, q):
    m = (p + q) / 2
    return 0.5 * ((p * (p / m).log()).sum(1) + (q * (q / m).log()).sum(1))


def divergence(model, x, permuted, key):
    """JSD of the prediction and the one with a modality's examples permuted, through the whole model."""
    order = keys.permutation(keys.fold(key, "mcr", permuted), len(x[permuted]))
    swapped = x | {permuted: x[permuted][order]}
    return slow_jsd(probabilities(model(x)), probabilities(model(swapped))).mean()


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize(("family", "classes"), FAMILIES)
def test_each_encoder_climbs_its_own_game_and_descends_the_others(names, family, classes, key):
    model, x, y = setting(names, classes)
    found = game_alone(family, model, x, y, key)
    for mine in names:
        own = dict(model.encoders[mine].named_parameters())
        expected = [torch.zeros_like(p) for p in own.values()]
        for played in names:
            slopes = torch.autograd.grad(divergence(model, x, played, key), list(own.values()))
            expected = [e + (-s if played == mine else s) for e, s in zip(expected, slopes, strict=True)]
        for name, e in zip(own, expected, strict=True):
            torch.testing.assert_close(found[f"encoders.{mine}.{name}"], e)
            assert e.abs().max() > 1e-6


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_the_game_reaches_neither_fusion_nor_heads(names, key):
    model, x, y = setting(names)
    found = game_alone(Categorical(), model, x, y, key)
    assert all(g.abs().max() == 0 for name, g in found.items() if not name.startswith("encoders."))


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_the_value_is_vanillas_plus_the_contrastive_term_and_the_game_is_reported(names, key):
    model, x, y = setting(names)
    method = MCR(game=3.0, contrast=0.7, temperature=0.3, unimodal_weight=0.2)
    loss, parts = method(model, x, y, key=key)
    vanilla, others = Vanilla(unimodal_weight=0.2)(model, x, y)
    term = slow_contrastive(model.encode_all(x), y, 0.3)
    torch.testing.assert_close(loss, vanilla + 0.7 * term)
    torch.testing.assert_close(parts["contrast"], term.detach())
    for name in names:
        torch.testing.assert_close(parts[f"game/{name}"], divergence(model, x, name, key).detach())
    assert parts.keys() == others.keys() | {"contrast"} | {f"game/{name}" for name in names}
    assert not any(part.requires_grad for part in parts.values())


def slow_contrastive(latents, y, temperature):
    total = 0.0
    names = list(latents)
    for one in range(len(names)):
        for two in range(one + 1, len(names)):
            for z, w in ((latents[names[one]], latents[names[two]]), (latents[names[two]], latents[names[one]])):
                for i in range(len(y)):
                    to = torch.stack([F.cosine_similarity(z[i], w[k], dim=0) for k in range(len(y))]) / temperature
                    positives = [k for k in range(len(y)) if y[k] == y[i]]
                    own = [-(to[k] - to.exp().sum().log()) for k in positives]
                    total = total + 0.5 * sum(own) / len(positives) / len(y)
    return total


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_the_contrastive_loss_is_that_of_a_plain_loop_with_its_gradient(names):
    latents = {name: torch.randn(6, 2, 2, dtype=torch.float64, requires_grad=True) for name in names}
    y = torch.tensor([0, 1, 1, 0, 1, 2])
    fast = contrastive(latents, y, 0.5)
    slow = slow_contrastive({name: z.flatten(1) for name, z in latents.items()}, y, 0.5)
    torch.testing.assert_close(fast, slow)
    for f, s in zip(*(torch.autograd.grad(t, list(latents.values())) for t in (fast, slow)), strict=True):
        torch.testing.assert_close(f, s)
    torch.testing.assert_close(contrastive(latents, y[:, None].double(), 0.5), fast)  # targets as Bernoulli takes them


def test_the_game_compares_predictions_without_dropout_and_leaves_its_draws_to_the_task(key):
    models = []
    for method in (Vanilla(), MCR(contrast=0.0)):
        torch.manual_seed(0)
        model = FusionModel.mlp({"a": 4, "b": 3}, hidden=[5], classes=3, dropout=0.5).double()
        x = {"a": torch.ones(6, 4, dtype=torch.float64), "b": torch.ones(6, 3, dtype=torch.float64)}
        models.append((model, method(model, x, torch.arange(6) % 3, key=key)))
    (vanilla, (loss, _)), (model, (same, parts)) = models
    assert torch.equal(loss, same)
    assert all(torch.equal(a, b) for a, b in zip(vanilla.buffers(), model.buffers(), strict=True))
    assert all(m.training for m in model.modules())
    # Latents differ, since the encoders dropped; a batch of equal ones would have no divergence at all.
    model.encoders.eval()
    assert MCR(contrast=0.0)(model, x, torch.arange(6) % 3, key=key)[1]["game/a"] == pytest.approx(0.0, abs=1e-12)
    assert parts["game/a"] > 0


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, latents):
        pooled = [(z.values * ~z.padding[..., None]).sum(1) for z in latents.values()]
        return self.linear(torch.cat(pooled, 1))


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return Tokens(self.linear(x.values), x.padding)


def test_latents_may_be_tokens(key):
    model = FusionModel({"a": Embed(), "b": Embed()}, Pooled())
    x = {name: Tokens(torch.randn(6, 4, 3), torch.rand(6, 4) < 0.3) for name in "ab"}
    method, y = MCR(), torch.arange(6) % 3
    found = gradients(method, model, x, y, key)
    plain = gradients(MCR(game=0.0), model, x, y, key)
    assert not torch.allclose(found["encoders.a.linear.weight"], plain["encoders.a.linear.weight"], atol=1e-6)
    torch.testing.assert_close(found["fusion.linear.weight"], plain["fusion.linear.weight"])


def test_latents_of_different_widths_are_refused_unless_nothing_is_contrasted(key):
    class Concatenated(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(7, 3)

        def forward(self, latents):
            return self.linear(torch.cat(list(latents.values()), 1))

    model = FusionModel({"a": nn.Linear(4, 5), "b": nn.Linear(3, 2)}, Concatenated())
    x, y = {"a": torch.randn(6, 4), "b": torch.randn(6, 3)}, torch.arange(6) % 3
    with pytest.raises(ValueError, match="needs latents of equal width; got a 5, b 2: make them equal, or set contras"):
        MCR()(model, x, y, key=key)
    loss, parts = MCR(contrast=0.0)(model, x, y, key=key)
    torch.testing.assert_close(loss, F.cross_entropy(model(x), y))
    assert parts["game/a"] > 0
