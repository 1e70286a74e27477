import pytest
import torch
from torch import nn

from synib import FusionModel, RandomMask, StandardNoise, SynIB, Tokens
from synib.models import ConcatFusion

WIDTHS = {"a": 4, "b": 3, "c": 2}


def batch(names=("a", "b", "c"), rows=5):
    return {name: torch.randn(rows, WIDTHS[name]) for name in names}


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("layers", [[3], [6, 3], [6, 5, 3]])
def test_concat_fusion_equals_a_concatenation_and_one_linear_layer(names, layers):
    fusion = ConcatFusion({name: WIDTHS[name] for name in names}, layers)
    latents = batch(names)
    first = nn.Linear(sum(WIDTHS[name] for name in names), layers[0])
    with torch.no_grad():
        first.weight.copy_(torch.cat([fusion.slices[name].weight for name in names], 1))
        first.bias.copy_(fusion.bias)
    explicit = fusion.rest(first(torch.cat([latents[name] for name in names], 1)))
    torch.testing.assert_close(fusion(latents), explicit)
    assert fusion(latents).shape == (5, 3)


def test_concat_fusion_begins_as_the_concatenated_layer_would():
    torch.manual_seed(3)
    fusion = ConcatFusion({"a": 4, "b": 3}, [6])
    torch.manual_seed(3)
    whole = nn.Linear(7, 6)
    assert torch.equal(torch.cat([s.weight for s in fusion.slices.values()], 1), whole.weight)
    assert torch.equal(fusion.bias, whole.bias)
    assert sum(p.numel() for p in fusion.parameters()) == sum(p.numel() for p in whole.parameters())


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_an_mlp_fusion_model_predicts_from_every_modality(names, classes):
    model = FusionModel.mlp({name: WIDTHS[name] for name in names}, hidden=[6, 5], classes=classes, head_hidden=[4])
    x = batch(names)
    assert model(x).shape == (5, classes)
    assert model.names == tuple(names)
    assert {name: p.shape for name, p in model.unimodal(x).items()} == dict.fromkeys(names, (5, classes))
    assert {name: z.shape for name, z in model.encode_all(x).items()} == dict.fromkeys(names, (5, 5))


def test_a_fusion_that_concatenates_sees_the_encoders_order_whatever_the_batchs(key):
    class Concatenate(nn.Linear):
        def forward(self, latents):
            return super().forward(torch.cat(list(latents.values()), -1))

    model = FusionModel({name: nn.Linear(width, 4) for name, width in WIDTHS.items()}, Concatenate(12, 3))
    x, y = batch(), torch.arange(5) % 3
    objective = SynIB(RandomMask(0.5), StandardNoise())
    losses = [objective(model, given, y, key=key)[0] for given in (x, dict(reversed(x.items())))]
    assert torch.equal(*losses)


def test_on_latents_is_the_model_behind_its_encoders():
    model = FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[])
    x = batch()
    latents = model.encode_all(x)
    behind = model.on_latents()
    assert torch.equal(behind(latents), model(x))
    assert behind.names == model.names
    assert behind.encode("a", latents["a"]) is latents["a"]
    assert torch.equal(behind.head("a", latents["a"]), model.unimodal(x)["a"])


@pytest.mark.parametrize("detach", [False, True])
def test_detached_heads_teach_the_encoders_nothing(detach):
    model = FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[], detach_heads=detach)
    sum(p.square().sum() for p in model.unimodal(batch()).values()).backward()
    assert all(p.grad is not None for p in model.heads.parameters())
    assert all((p.grad is None) is detach for p in model.encoders.parameters())


def test_detached_heads_can_be_looked_through():
    model = FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[], detach_heads=True)
    latent = torch.randn(5, 6, requires_grad=True)
    assert torch.autograd.grad(model.head("a", latent, through=True).sum(), latent)[0].any()


def test_only_some_modalities_may_have_heads():
    encoders = {"a": nn.Linear(4, 6), "b": nn.Linear(3, 6)}
    model = FusionModel(encoders, ConcatFusion({"a": 6, "b": 6}, [3]), heads={"b": nn.Linear(6, 3)})
    assert [model.has_head(name) for name in "ab"] == [False, True]
    assert set(model.unimodal(batch("ab"))) == {"b"}


def test_detached_heads_read_tokens_too():
    class Mean(nn.Module):
        def forward(self, x):
            return x.values.mean(1) if isinstance(x, Tokens) else x

    class Keep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return Tokens(self.layer(x.values), x.padding)

    class Both(nn.Module):
        def forward(self, latents):
            return sum(z.values.mean(1) for z in latents.values())

    model = FusionModel({"a": Keep(), "b": Keep()}, Both(), {"a": Mean(), "b": Mean()}, detach_heads=True)
    x = {name: Tokens(torch.randn(4, 5, 3), torch.zeros(4, 5, dtype=torch.bool)) for name in "ab"}
    latent = model.encode("a", x["a"])
    assert not model.head("a", latent).requires_grad
    assert model.head("a", latent, through=True).requires_grad
