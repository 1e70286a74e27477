"""Rows that lack a modality: a latent of their own, and no penalty for what is not there."""

import pytest
import torch

from synib import Bernoulli, FusionModel, OnLatents, RandomMask, ShuffledNoise, StandardNoise, SynIB, Tokens, keys
from synib.methods import build
from synib.methods.hooks import AddsModules
from synib.tokens import optional, present, take
from synib.training import backward

N = 24
WITH = torch.arange(N) % 3 != 0


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], head_hidden=[], missing=["a"])
    torch.nn.init.normal_(made.encoders["a"].missing)
    return made


def batch(there=WITH, seed=0, absent=0.0):
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(N, 5, generator=g), torch.randn(N, 4, generator=g)
    a[~there] = absent
    return {"a": optional(a, there), "b": b}, torch.randint(2, (N,), generator=g).float()


@pytest.mark.parametrize("absent", [0.0, 1e6, float("nan"), float("inf")])
def test_what_stands_in_a_row_that_lacks_it_does_not_count(model, absent):
    assert torch.equal(model(batch(absent=absent)[0]), model(batch()[0]))


def test_rows_that_lack_it_share_one_latent_which_is_learned_and_the_others_have_their_own(model):
    x, target = batch()
    z = model.encode("a", x["a"])
    assert torch.equal(z[~WITH], model.encoders["a"].missing.expand(int((~WITH).sum()), -1))
    plain = model.encoders["a"].encoder(x["a"].values[:, 0])
    assert torch.equal(z[WITH], plain[WITH])
    loss, _ = SynIB(RandomMask(1.0), ShuffledNoise(), family=Bernoulli())(model, x, target)
    loss.backward()
    assert model.encoders["a"].missing.grad.abs().sum() > 0


def test_presence_is_what_is_not_all_padding():
    x = Tokens(torch.zeros(3, 2, 4), torch.tensor([[False, False], [False, True], [True, True]]))
    assert present(x).tolist() == [True, True, False]
    assert present(torch.zeros(3, 4)) is None


@pytest.mark.parametrize("noise", [StandardNoise, ShuffledNoise])
@pytest.mark.parametrize(("p", "draws"), [(0.5, 1), (1.0, 4)])
@pytest.mark.parametrize("on_latents", [False, True])
def test_the_penalty_of_a_modality_is_the_mean_over_rows_that_have_it(model, noise, p, draws, on_latents):
    objective = SynIB(RandomMask(p), noise(), family=Bernoulli(), draws=draws)
    objective = OnLatents(objective) if on_latents else objective
    x, target = batch()
    key = keys.key(3)
    _, parts = objective(model, x, target, key=key)
    _, changed = objective.counterfactuals(model, x, target, key)
    family = Bernoulli()
    for name, there in (("a", WITH), ("b", torch.ones(N, dtype=torch.bool))):
        said = family.average(model.combine(changed[name]).unflatten(0, (draws, N)))
        kl = family.kl(said, torch.zeros_like(said[:1]))
        assert torch.allclose(parts[f"penalty/{name}"], kl[there].mean(), atol=1e-6), name
        if name == "a":
            assert not torch.allclose(parts["penalty/a"], kl.mean(), atol=1e-6)


def test_where_nobody_has_it_there_is_no_penalty_and_nothing_breaks(model):
    x, target = batch(torch.zeros(N, dtype=torch.bool))
    loss, parts = SynIB(RandomMask(1.0), ShuffledNoise(), family=Bernoulli())(model, x, target)
    assert parts["penalty/a"] == 0
    assert loss.isfinite()


def test_where_everybody_has_it_the_loss_is_that_of_a_model_without_the_question(model):
    x, target = batch(torch.ones(N, dtype=torch.bool))
    plain = FusionModel({"a": model.encoders["a"].encoder, "b": model.encoders["b"]}, model.fusion, dict(model.heads))
    objective = SynIB(RandomMask(1.0), ShuffledNoise(), family=Bernoulli(), draws=4)
    ours = objective(model, x, target, key=keys.key(1))[0]
    theirs = objective(plain, {"a": x["a"].values[:, 0], "b": x["b"]}, target, key=keys.key(1))[0]
    assert torch.equal(ours, theirs)


def test_a_subset_counts_rows_that_have_any_of_it():
    torch.manual_seed(0)
    model = FusionModel.mlp({"a": 5, "b": 4, "c": 3}, hidden=[8], missing=["a", "b"])
    g = torch.Generator().manual_seed(0)
    without_a, without_b = torch.arange(N) < 12, (torch.arange(N) >= 6) & (torch.arange(N) < 18)
    x = {
        "a": optional(torch.randn(N, 5, generator=g), ~without_a),
        "b": optional(torch.randn(N, 4, generator=g), ~without_b),
        "c": torch.randn(N, 3, generator=g),
    }
    target = torch.randint(2, (N,), generator=g).float()
    objective = SynIB(RandomMask(1.0), ShuffledNoise(), family=Bernoulli(), subsets="proper", draws=1)
    key = keys.key(5)
    _, parts = objective(model, x, target, key=key)
    _, changed = objective.counterfactuals(model, x, target, key)
    for label, there in (("a+b", ~(without_a & without_b)), ("a+c", torch.ones(N, dtype=torch.bool))):
        kl = Bernoulli().kl(model.combine(changed[label]), torch.zeros(1, 1))
        assert torch.allclose(parts[f"penalty/{label}"], kl[there].mean(), atol=1e-6), label


SETTINGS = {
    "vanilla": {},
    "confidence": {},
    "ensemble": {},
    "unimodal-a": {},
    "synib-random": {"p": 0.5},
    "masked-random": {"p": 0.5},
    "synib-marginal": {"draws": 2},
    "experts": {"draws": 2},
}


@pytest.mark.parametrize("method", SETTINGS)
def test_methods_train_with_rows_that_lack_a_modality(model, method):
    x, target = batch()
    built = build(method, family=Bernoulli(), **SETTINGS[method])
    built.prepare(model, {name: take(v, slice(0, 2)) for name, v in x.items()})
    if isinstance(built, AddsModules):
        built.attach(model)
    loss, _ = backward(built, model, x, target)
    assert loss.isfinite()
    assert built.predict(model, x).isfinite().all()
