"""A synergy expert beside unimodal experts, and what is made of their answers."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from synib import Bernoulli, Categorical, FusionModel, RandomMask, SynIB
from synib.data import Dataset, Split
from synib.methods import Confidence, Ensemble, Vanilla
from synib.methods.experts import Experts, experts, stack, stacked
from synib.methods.synib import synib_amortized, synib_marginal
from synib.training.loop import fit

WIDTHS = {"a": 4, "b": 3, "c": 2}
HOW = {"lr": 1e-2, "weight_decay": 1e-2, "epochs": 2, "batch_size": 16}


def noise_only():
    g = torch.Generator().manual_seed(0)
    splits = (
        Split({name: torch.randn(40, width, generator=g) for name, width in WIDTHS.items()}, torch.arange(40) % 3)
        for _ in range(3)
    )
    return Dataset(*splits)


def model_of(widths, **settings):
    return FusionModel.mlp(widths, **({"hidden": [8], "classes": 3, "head_hidden": [5]} | settings))


def assert_equal(one, other):
    a, b = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


SYNERGY = {
    "marginal": partial(synib_marginal, weight=2.0, draws=3),
    "masks": partial(SynIB, RandomMask(0.4), weight=2.0),
    "network": partial(synib_amortized, widths=WIDTHS, sparsity=0.1),
    "confidence": Confidence,
    "vanilla": Vanilla,
}


@pytest.mark.parametrize(
    ("name", "dropout", "detach_heads"), [*((name, 0.0, False) for name in SYNERGY), ("marginal", 0.3, True)]
)
def test_the_fusion_model_ends_as_its_objective_alone_would_have_left_it_and_the_copies_as_an_ensemble(
    name, dropout, detach_heads
):
    model = model_of(WIDTHS, dropout=dropout, detach_heads=detach_heads)
    alone, members, data = copy.deepcopy(model), copy.deepcopy(model), noise_only()
    torch.manual_seed(1)
    method = Experts(SYNERGY[name](unimodal_weight=0.5))
    torch.manual_seed(1)
    synergy = SYNERGY[name](unimodal_weight=0.5)
    fit(method, model, data, **HOW)
    fit(synergy, alone, data, **HOW)
    fit(Ensemble(), members, data, **HOW)
    assert_equal(model, alone)
    assert_equal(method.synergy, synergy)
    assert_equal(method.apart.encoders, members.encoders)
    assert_equal(method.apart.heads, members.heads)


def test_before_it_settles_the_fusion_answers_alone_and_then_the_weighted_sum():
    model, method, data = model_of(WIDTHS), experts(draws=3), noise_only()
    method.attach(model)
    x = data.test.modalities
    assert method.weights.tolist() == [1, 0, 0, 0]
    assert torch.equal(method.predict(model, x), model(x))
    fit(method, model, data, **HOW)
    said = [model(x), *method.apart.unimodal(x).values()]
    weights, bias = stack(
        Categorical(), method.answers(model, data.validation.modalities), data.validation.target, 1e-3
    )
    expected = sum(w * own for w, own in zip(weights, said, strict=True)) + bias
    torch.testing.assert_close(method.predict(model, x).double(), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(method.predict(model, dict(reversed(x.items()))), method.predict(model, x))


def test_what_was_trained_can_be_saved_and_loaded():
    model, method, data = model_of(WIDTHS), experts(draws=3), noise_only()
    fit(method, model, data, **HOW)
    other = experts(draws=3)
    other.attach(model_of(WIDTHS))
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.predict(model, data.test.modalities), method.predict(model, data.test.modalities))


def cue_and_synergy(n, g):
    """The label is a cue in ``a``, or for three in ten examples the exclusive or of two signs; the rest is noise."""
    y, bit = (torch.randint(2, (n,), generator=g) for _ in range(2))
    synergy = torch.rand(n, generator=g) < 0.3
    columns = torch.stack([~synergy * (2 * y - 1), synergy * (2 * bit - 1), synergy * (2 * (bit ^ y) - 1), 0 * y], 1)
    x = columns + 0.3 * torch.randn(n, 4, generator=g)
    return Split({"a": x[:, :2], "b": x[:, 2:]}, y, {"synergy": synergy})


def test_stacking_keeps_both_the_cue_and_the_synergy():
    g = torch.Generator().manual_seed(0)
    data = Dataset(cue_and_synergy(600, g), cue_and_synergy(200, g), cue_and_synergy(2000, g))
    model = FusionModel.mlp(data.widths, hidden=[32], head_hidden=[])
    method = experts(family=Bernoulli())
    fit(method, model, data, lr=1e-2, epochs=20, batch_size=100)
    x, y, synergy = data.test.modalities, data.test.target, data.test.groups["synergy"]

    def right(prediction):
        hits = ((prediction.flatten() > 0).long() == y).double()
        return hits.mean().item(), hits[synergy].mean().item()

    fusion, cue, nothing = (right(one) for one in method.answers(model, x))
    stacked = right(method.predict(model, x))
    assert cue[0] < 0.9
    assert cue[1] < 0.6
    assert nothing[0] < 0.6
    assert fusion[0] < 0.97  # what the penalty costs
    assert fusion[1] > 0.98
    assert stacked[0] > 0.99
    assert stacked[1] > 0.98
    before, after = (Bernoulli().nll(p, y).mean() for p in (model(x), method.predict(model, x)))
    assert after < 0.2 * before


def test_a_head_that_does_not_show_how_wide_its_answer_is_is_refused():
    model, method = model_of(WIDTHS), experts()
    for head in model.heads.values():
        head.append(nn.PReLU())  # a single slope comes after the three biases
    method.attach(model)
    with pytest.raises(
        ValueError, match="as many outputs as a prediction, 3; the last parameter of the head of 'a' has 1"
    ):
        method.predict(model, {name: torch.randn(6, width) for name, width in WIDTHS.items()})


def test_stacked_plain_fusion_is_experts_with_weight_0():
    trained = []
    for method in (experts(weight=0.0, draws=2, family=Categorical()), stacked(family=Categorical())):
        torch.manual_seed(0)
        model = model_of(WIDTHS)
        fit(method, model, noise_only(), **HOW)
        trained.append((model, method))
    (first, with_penalty), (second, without) = trained
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert torch.allclose(with_penalty.weights, without.weights, atol=1e-3)
