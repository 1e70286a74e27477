"""Latents instead of inputs, penalties of some modalities only, and the counterfactuals themselves."""

import pytest
import torch
from torch import nn

from synib import (
    AmortizedMask,
    ClassShuffledNoise,
    LearnedMask,
    MatchedNoise,
    OnLatents,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Tokens,
    Uniform,
)

LATENT = 5  # as the model of conftest has it
KINDS = {
    "standard": lambda **s: SynIB(RandomMask(0.5), StandardNoise(), **s),
    "matched": lambda **s: SynIB(RandomMask(0.5), MatchedNoise(), **s),
    "shuffled": lambda **s: SynIB(RandomMask(0.5), ShuffledNoise(), **s),
    "swapped": lambda **s: SynIB(RandomMask(1.0), ShuffledNoise(), draws=4, debias=True, **s),
    "class-shuffled": lambda **s: SynIB(RandomMask(1.0), ClassShuffledNoise(), draws=2, **s),
    "learned": lambda **s: SynIB(LearnedMask(3, lr=1.0), ShuffledNoise(), **s),
    "amortized": lambda **s: SynIB(AmortizedMask(dict.fromkeys("abc", LATENT), sparsity=0.1), StandardNoise(), **s),
    "sampled": lambda **s: SynIB(RandomMask(0.5), StandardNoise(), sample=1, **s),
    "proper": lambda **s: SynIB(RandomMask(0.5), StandardNoise(), subsets="proper", **s),
}


def kinds(*without):
    return pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in without])


def made(kind, on_latents=False, **settings):
    torch.manual_seed(5)
    objective = KINDS[kind](weight=0.7, **settings)
    return (OnLatents(objective) if on_latents else objective).double()


def gradients(loss, *modules):
    parameters = [p for module in modules for p in module.parameters()]
    return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)


def equal(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@kinds()
@pytest.mark.parametrize("detach_heads", [False, True])
def test_masks_on_latents_are_masks_on_what_the_encoders_make(kind, detach_heads, key, batch, fusion_model):
    x, y = batch(3)
    model = fusion_model(3, detach_heads=detach_heads)
    ours, theirs = made(kind, on_latents=True), made(kind)
    for step in range(2):  # the second, with what noise has seen in the first
        loss, parts = ours(model, x, y, key=key + step)
        other, by_hand = theirs(model.on_latents(), model.encode_all(x), y, key=key + step)
        assert torch.equal(loss, other)
        assert parts.keys() == by_hand.keys()
        assert all(torch.equal(parts[name], by_hand[name]) for name in parts)
        assert equal(gradients(loss, model, ours), gradients(other, model, theirs))
    assert equal(ours.buffers(), theirs.buffers())


@kinds("amortized")  # its networks are as wide as the latents
def test_masks_on_latents_are_something_else_unless_whole_modalities_are_swapped(kind, key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    inputs, latents = (made(kind, on_latents=o)(model, x, y, key=key)[0] for o in (False, True))
    assert torch.equal(inputs, latents) == (kind in ("swapped", "class-shuffled"))


def test_encoders_see_intact_data_only_and_once(key, batch, fusion_model):
    x, y = batch(2)
    model, seen = fusion_model(2), []
    model.encoders["a"].register_forward_hook(lambda module, given, out: seen.append(given[0]))
    made("standard", on_latents=True)(model, x, y, key=key)
    assert len(seen) == 1
    assert torch.equal(seen[0], x["a"])


def test_batch_norm_in_the_encoders_alone_leaves_the_fast_path_on_latents(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    for encoder in model.encoders.values():
        encoder.append(nn.BatchNorm1d(LATENT).double())
    made("standard", on_latents=True)(model, x, y, key=key)  # a warning would be an error
    with pytest.warns(UserWarning, match="BatchNorm"):
        made("standard")(model, x, y, key=key)


def test_the_masks_own_loss_on_latents_does_not_reach_the_encoders(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    first, second = (made("amortized", on_latents=True) for _ in range(2))
    second.objective.mask.sparsity.fill_(100.0)
    ours, theirs = (gradients(one(model, x, y, key=key)[0], model.encoders) for one in (first, second))
    assert equal(ours, theirs)
    assert not equal(*(gradients(one(model, x, y, key=key)[0], one) for one in (first, second)))


# Room for what the first batch brings


def test_noise_on_latents_is_prepared_for_latents(batch, fusion_model):
    x, _ = batch(2)
    model = fusion_model(2)
    for on_latents, widths in ((True, {"a": LATENT, "b": LATENT}), (False, {"a": 4, "b": 3})):
        noise = MatchedNoise()
        objective = SynIB(noise=noise)
        (OnLatents(objective) if on_latents else objective).prepare(model, x)
        assert {name: len(getattr(noise, f"mean_{name}")) for name in x} == widths
        assert not any(buffer.any() for buffer in noise.buffers())


def test_preparing_changes_neither_the_model_nor_its_modes_nor_torchs_generator(batch, fusion_model):
    x, _ = batch(2)
    model = fusion_model(2, dropout=0.5)
    model.encoders["a"].append(nn.BatchNorm1d(LATENT).double())
    model.encoders["b"].eval()  # frozen
    modes, state = [m.training for m in model.modules()], [b.clone() for b in model.buffers()]
    before = torch.get_rng_state()
    OnLatents(SynIB(noise=MatchedNoise())).prepare(model, x)
    assert [m.training for m in model.modules()] == modes
    assert equal(model.buffers(), state)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_is_elsewhere_already_is_prepared_for_there(batch, fusion_model):
    x, _ = batch(2)
    objective = OnLatents(SynIB(noise=MatchedNoise()))
    objective.prepare(fusion_model(2).to("meta"), x)
    assert objective.objective.noise.mean_a.device.type == "meta"


# Some modalities


@kinds("amortized", "proper", "sampled")
@pytest.mark.parametrize("names", ["a", "ca", "abc"])
def test_only_the_modalities_named_are_penalised_each_as_it_would_be_among_all(kind, names, key, batch, fusion_model):
    x, y = batch(3)
    model = fusion_model(3)
    loss, parts = made(kind)(model, x, y, key=key)
    some, of_some = made(kind, corrupt=list(names))(model, x, y, key=key)
    penalties = {name for name in parts if name.startswith("penalty/")}
    kept = {f"penalty/{name}" for name in names}
    assert of_some.keys() == parts.keys() - penalties | kept
    torch.testing.assert_close(of_some, {name: parts[name] for name in of_some})
    torch.testing.assert_close(some, loss - 0.7 * sum(parts[name] for name in penalties - kept))


# Counterfactuals


@pytest.mark.parametrize(
    ("kind", "on_latents"), [(k, o) for k in KINDS for o in (False, True) if k != "amortized" or o]
)
def test_the_counterfactuals_are_those_of_the_loss(kind, on_latents, key, batch, fusion_model):
    x, y = batch(3)
    model, objective = fusion_model(3), made(kind, on_latents)
    inner = objective.objective if on_latents else objective
    _, parts = objective(model, x, y, key=key)
    objective.eval()  # what noise has seen stays
    intact, corrupted = objective.counterfactuals(model, x, y, key)
    torch.testing.assert_close(model.combine(intact), model(x))
    assert [f"penalty/{label}" for label in corrupted] == [name for name in parts if name.startswith("penalty/")]
    for label, given in corrupted.items():
        draws = model.combine(given).unflatten(0, (inner.draws or 1, -1))

        def kl(some):
            average = inner.family.average(some)
            return inner.family.kl(average, Uniform()(average, inner.family, {})).mean()

        penalty = 2 * kl(draws) - 0.5 * (kl(draws[:2]) + kl(draws[2:])) if inner.debias else kl(draws)
        torch.testing.assert_close(penalty, parts[f"penalty/{label}"])


def test_counterfactuals_of_tokens_and_of_a_plain_callable_are_what_it_would_be_given(key):
    x = {"a": torch.randn(6, 3), "b": Tokens(torch.randn(6, 4, 2), torch.rand(6, 4) < 0.3)}
    objective = SynIB(RandomMask(1.0), ShuffledNoise())
    intact, corrupted = objective.counterfactuals(lambda m: m["a"], x, torch.arange(6) % 3, key)
    assert intact["b"] is x["b"]
    swapped = corrupted["b"]["b"]
    donors = [int((x["b"].values == row).flatten(1).all(1).nonzero()) for row in swapped.values]
    assert torch.equal(swapped.padding, x["b"].padding[donors])
    assert torch.equal(corrupted["b"]["a"], x["a"])


@pytest.mark.parametrize("on_latents", [False, True])
def test_looking_at_counterfactuals_changes_no_state(on_latents, key, batch, fusion_model):
    x, y = batch(2)
    model, objective = fusion_model(2), made("matched", on_latents)
    objective(model, x, y, key=key)
    before = {name: t.clone() for name, t in objective.state_dict().items()}
    first, second = (objective.counterfactuals(model, x, y, key)[1]["a"]["a"] for _ in range(2))
    assert torch.equal(first, second)
    torch.testing.assert_close(dict(objective.state_dict()), before, rtol=0, atol=0)
