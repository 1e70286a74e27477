"""Latents instead of inputs, shares of the penalty, and the counterfactuals themselves."""

import pytest
import torch
from torch import nn

from synib import (
    AmortizedMask,
    ClassShuffledNoise,
    FusionModel,
    LearnedMask,
    MatchedNoise,
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


def made(kind, **settings):
    torch.manual_seed(5)
    return KINDS[kind](weight=0.7, **settings).double()


def gradients(loss, *modules):
    parameters = [p for module in modules for p in module.parameters()]
    return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)


def equal(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@kinds()
@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize("detach_heads", [False, True])
def test_masks_on_latents_are_masks_on_what_the_encoders_make(kind, fused, detach_heads, key, batch, fusion_model):
    x, y = batch(3)
    model = fusion_model(3, detach_heads=detach_heads)
    ours, theirs = made(kind, fused=fused, space="latents"), made(kind, fused=fused)
    for step in range(2):  # the second, with what noise has seen in the first
        loss, parts = ours(model, x, y, key=key + step)
        other, by_hand = theirs(model.on_latents(), model.encode_all(x), y, key=key + step)
        assert torch.equal(loss, other)
        assert parts.keys() == by_hand.keys()
        assert all(torch.equal(parts[name], by_hand[name]) for name in parts)
        assert equal(gradients(loss, model, ours), gradients(other, model, theirs))
    assert equal(ours.buffers(), theirs.buffers())


@kinds("amortized")  # its networks are as wide as the latents
def test_masks_on_inputs_are_the_default_and_something_else(kind, key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    default, inputs, latents = (
        made(kind, **s)(model, x, y, key=key)[0] for s in ({}, {"space": "inputs"}, {"space": "latents"})
    )
    assert torch.equal(default, inputs)
    # A modality that is swapped whole is the same row's latent.
    assert torch.equal(default, latents) == (kind in ("swapped", "class-shuffled"))


def test_the_order_of_the_modalities_does_not_matter_on_latents_either(key, batch, fusion_model):
    x, y = batch(3)
    model, objective = fusion_model(3), made("standard", space="latents")
    turned = dict(reversed(x.items()))
    torch.testing.assert_close(objective(model, x, y, key=key)[0], objective(model, turned, y, key=key)[0])


def test_encoders_see_intact_data_only_and_once(key, batch, fusion_model):
    x, y = batch(2)
    model, seen = fusion_model(2), []
    model.encoders["a"].register_forward_hook(lambda module, given, out: seen.append(given[0]))
    made("standard", space="latents")(model, x, y, key=key)
    assert len(seen) == 1
    assert torch.equal(seen[0], x["a"])


def test_batch_norm_in_the_encoders_alone_leaves_the_fast_path_on_latents(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    for encoder in model.encoders.values():
        encoder.append(nn.BatchNorm1d(LATENT).double())
    made("standard", space="latents")(model, x, y, key=key)  # a warning would be an error
    with pytest.warns(UserWarning, match="BatchNorm"):
        made("standard")(model, x, y, key=key)


def test_the_masks_own_loss_on_latents_does_not_reach_the_encoders(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    first, second = (made("amortized", space="latents") for _ in range(2))
    second.mask.sparsity.fill_(100.0)
    ours, theirs = (gradients(one(model, x, y, key=key)[0], model.encoders) for one in (first, second))
    assert equal(ours, theirs)
    assert not equal(*(gradients(one(model, x, y, key=key)[0], one) for one in (first, second)))


# Room for what the first batch brings


def test_noise_on_latents_is_prepared_for_latents(batch, fusion_model):
    x, _ = batch(2)
    model = fusion_model(2)
    for space, widths in (("latents", {"a": LATENT, "b": LATENT}), ("inputs", {"a": 4, "b": 3})):
        objective = SynIB(noise=MatchedNoise(), space=space)
        objective.prepare(model, x)
        assert {name: len(getattr(objective.noise, f"mean_{name}")) for name in x} == widths
        assert not any(buffer.any() for buffer in objective.noise.buffers())


def test_preparing_changes_neither_the_model_nor_its_modes_nor_torchs_generator(batch, fusion_model):
    x, _ = batch(2)
    model = fusion_model(2, dropout=0.5)
    model.encoders["a"].append(nn.BatchNorm1d(LATENT).double())
    model.encoders["b"].eval()  # frozen
    modes, state = [m.training for m in model.modules()], [b.clone() for b in model.buffers()]
    before = torch.get_rng_state()
    SynIB(noise=MatchedNoise(), space="latents").prepare(model, x)
    assert [m.training for m in model.modules()] == modes
    assert equal(model.buffers(), state)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_is_elsewhere_already_is_prepared_for_there(batch, fusion_model):
    x, _ = batch(2)
    objective = SynIB(noise=MatchedNoise(), space="latents")
    objective.prepare(fusion_model(2).to("meta"), x)
    assert objective.noise.mean_a.device.type == "meta"


# Shares


@kinds("proper")  # shares are of single modalities
def test_a_share_of_nothing_is_no_penalty_and_shares_of_one_are_none(kind, key, batch, fusion_model):
    x, y = batch(3)
    model = fusion_model(3)
    space = {"space": "latents"} if kind == "amortized" else {}

    def taught(**settings):
        objective = made(kind, **space, **settings)
        loss, parts = objective(model, x, y, key=key)
        return loss, parts, gradients(loss, model)

    loss, parts, slopes = taught()
    same, _, same_slopes = taught(shares={"a": 1.0, "b": 1.0, "c": 1})
    torch.testing.assert_close(same, loss)
    for ours, theirs in zip(same_slopes, slopes, strict=True):
        torch.testing.assert_close(ours, theirs)
    for shares in ({"a": 0.0}, {"b": 0.25}, {"a": 2.0, "c": 0.5}):
        changed, told, _ = taught(shares=shares)
        less = sum((1 - share) * parts[f"penalty/{name}"] for name, share in shares.items())
        torch.testing.assert_close(changed, loss - 0.7 * less)
        assert all(torch.equal(told[name], parts[name]) for name in parts)  # each penalty is told as it is
    none, _, without = taught(shares=dict.fromkeys("abc", 0.0))
    objective = made(kind, **space)
    objective.weight.weight.zero_()
    plain = objective(model, x, y, key=key)[0]
    torch.testing.assert_close(none, plain)
    for ours, theirs in zip(without, gradients(plain, model), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_space_and_shares_are_told():
    assert "space='latents'" in repr(SynIB(space="latents"))
    assert "shares={'a': 0.5}" in repr(SynIB(shares={"a": 0.5}))
    assert "shares" not in repr(SynIB())


# Counterfactuals


@pytest.mark.parametrize(
    ("kind", "space"), [(k, s) for k in KINDS for s in ("inputs", "latents") if (k, s) != ("amortized", "inputs")]
)
def test_the_counterfactuals_are_those_of_the_loss(kind, space, key, batch, fusion_model):
    x, y = batch(3)
    model, objective = fusion_model(3), made(kind, space=space)
    _, parts = objective(model, x, y, key=key)
    objective.eval()  # what noise has seen stays
    intact, corrupted = objective.counterfactuals(model, x, y, key)
    torch.testing.assert_close(model.combine(intact), model(x))
    assert [f"penalty/{label}" for label in corrupted] == [name for name in parts if name.startswith("penalty/")]
    for label, given in corrupted.items():
        draws = model.combine(given).unflatten(0, (objective.draws, -1))

        def kl(some):
            average = objective.family.average(some)
            return objective.family.kl(average, Uniform()(average, objective.family, {})).mean()

        penalty = 2 * kl(draws) - 0.5 * (kl(draws[:2]) + kl(draws[2:])) if objective.debias else kl(draws)
        torch.testing.assert_close(penalty, parts[f"penalty/{label}"])


def test_only_what_a_counterfactual_is_named_after_is_corrupted(key, batch, fusion_model):
    x, y = batch(3)
    model, objective = fusion_model(3), SynIB(RandomMask(1.0), ShuffledNoise(), subsets="proper", draws=2)
    intact, corrupted = objective.counterfactuals(model, x, y, key)
    assert len(corrupted) == 6
    for label, given in corrupted.items():
        for name, z in given.items():
            twice = torch.cat([intact[name]] * 2)
            assert torch.equal(z, twice) == (name not in label.split("+")), label


def test_counterfactuals_of_tokens_and_of_a_plain_callable_are_what_it_would_be_given(key):
    x = {"a": torch.randn(6, 3), "b": Tokens(torch.randn(6, 4, 2), torch.rand(6, 4) < 0.3)}
    objective = SynIB(RandomMask(1.0), ShuffledNoise())
    intact, corrupted = objective.counterfactuals(lambda m: m["a"], x, torch.arange(6) % 3, key)
    assert intact["b"] is x["b"]
    swapped = corrupted["b"]["b"]
    donors = [int((x["b"].values == row).flatten(1).all(1).nonzero()) for row in swapped.values]
    assert torch.equal(swapped.padding, x["b"].padding[donors])
    assert torch.equal(corrupted["b"]["a"], x["a"])


def test_without_a_key_torchs_generator_decides(batch, fusion_model):
    x, y = batch(2)
    model, objective = fusion_model(2), made("shuffled")

    def drawn(seed):
        torch.manual_seed(seed)
        return objective.counterfactuals(model, x, y)[1]["a"]["a"]

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))


# Mistakes


@pytest.mark.parametrize(
    ("model", "who"),
    [
        (lambda m: m["a"], "the function <lambda>"),
        (FusionModel.mlp({"a": 4, "b": 3}, [5], 3).double().on_latents(), "OnLatents"),
    ],
)
def test_latents_need_a_model_with_encoders(model, who, key, batch):
    x, y = batch(2)
    for call in (
        lambda: SynIB(space="latents")(model, x, y, key=key),
        lambda: SynIB(space="latents").counterfactuals(model, x, y, key),
    ):
        with pytest.raises(ValueError, match=f"space='latents' needs a model with encoders, .*; got {who}"):
            call()


def test_a_share_of_a_modality_that_is_not_there_is_refused(key, batch, fusion_model):
    x, y = batch(2)
    with pytest.raises(ValueError, match="shares name 'img'; the modalities are 'a', 'b'"):
        SynIB(shares={"a": 0.0, "img": 0.0})(fusion_model(2), x, y, key=key)
