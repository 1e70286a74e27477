import pytest
import torch

from synib import (
    Annealing,
    ClassShuffledNoise,
    FusionModel,
    LearnedMask,
    LinearWarmup,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    Uniform,
    Unimodal,
)
from synib.methods import METHODS, build, check_method
from synib.methods.hooks import AddsModules, TrainsInStages
from synib.training import backward
from synib.training.step import trained

WIDTHS = {"a": 4, "b": 3}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, {}) for name in METHODS),
        ("synib-marginal", {"draws": 4, "debias": True}),
        ("synib-random", {"p": 1.0, "noise": "class-shuffled"}),
        ("synib-random", {"noise": "matched", "space": "latents"}),
        ("synib-learned", {"space": "latents"}),
        ("synib-marginal", {"corrupt": ["a"], "reference": "unimodal"}),
        ("experts", {"space": "latents", "weight_schedule": "anneal", "weight_steps": 3}),
    ],
)
def test_every_method_trains_a_fusion_model(name, more, key, settings_of):
    model = FusionModel.mlp(WIDTHS, hidden=[5], classes=3, head_hidden=[])
    x, y = {name: torch.randn(6, width) for name, width in WIDTHS.items()}, torch.arange(6) % 3
    method = build(name, **(settings_of(name, WIDTHS) | more))
    if isinstance(method, AddsModules):
        method.attach(model)
    if isinstance(method, TrainsInStages):
        method.begin(1)  # some train something else first
    loss, parts = backward(method, model, x, y, key=key)
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert {f"model.{n}" for n in found} == set(
        trained(method, ((f"model.{n}", p) for n, p in model.named_parameters()))
    )
    assert all(g.isfinite().all() for g in found.values())
    assert any(g.abs().sum() > 0 for g in found.values())
    assert not loss.requires_grad
    assert parts
    assert all(part.isfinite() and not part.requires_grad for part in parts.values())
    assert method.predict(model, x).shape == (6, 3)


@pytest.mark.parametrize("name", ["unimodal-a", "unimodal-b"])
def test_a_modality_alone_may_be_named_in_the_methods_name(name):
    assert check_method(name) == name
    assert build(name).modality == name[-1]
    with pytest.raises(ValueError, match="Unknown method 'unimodal-'"):
        check_method("unimodal-")


def test_synib_methods_are_the_masks_they_are_named_after():
    random = build("synib-random", p=0.4, noise="shuffled")
    assert isinstance(random.mask, RandomMask)
    assert isinstance(random.noise, ShuffledNoise)
    learned = build("synib-learned", steps=7, mask_lr=3.0, sparsity=0.03, norm="mean", init=-4.0)
    assert isinstance(learned.mask, LearnedMask)
    mask = learned.mask
    assert (mask.steps, mask.lr, mask.sparsity, mask.norm, mask.init) == (7, 3.0, 0.03, "mean", -4.0)
    oracle = build("synib-oracle", coordinates={"a": [0]})
    assert isinstance(oracle.mask, OracleMask)
    assert isinstance(oracle.noise, StandardNoise)
    marginal = build("synib-marginal", draws=8)
    assert marginal.mask.whole
    assert isinstance(marginal.noise, ShuffledNoise)
    assert marginal.draws == 8


def test_a_name_like_no_other_is_answered_with_all_there_are():
    with pytest.raises(ValueError, match="Unknown method 'zzz'") as said:
        check_method("zzz")
    names = str(said.value).removeprefix("Unknown method 'zzz': choose from ").removesuffix(".")
    assert sorted(names.split(", ")) == sorted(METHODS)


# Plain words for objects


@pytest.mark.parametrize(("word", "schedule"), [("warmup", LinearWarmup), ("anneal", Annealing)])
@pytest.mark.parametrize("name", ["synib-random", "synib-marginal", "confidence", "experts"])
def test_a_schedule_in_words_is_the_schedule(name, word, schedule, settings_of):
    settings = settings_of(name, WIDTHS) | {"weight": 3.0}
    said = build(name, **settings, weight_schedule=word, weight_steps=5)
    made = build(name, **settings | {"weight": schedule(3.0, 5)})
    weights = [(one.synergy if name == "experts" else one).weight for one in (said, made)]
    assert [type(weight) for weight in weights] == [schedule] * 2
    assert [weight.steps for weight in weights] == [5, 5]
    assert repr(said) == repr(made)


def test_a_floor_in_words_is_that_of_an_annealed_weight():
    words = {"p": 0.5, "weight": 3.0, "weight_steps": 5, "weight_floor": 1.0}
    weight = build("synib-random", **words, weight_schedule="anneal").weight
    assert (weight.steps, weight.floor) == (5, 1.0)
    for schedule in ({"weight_schedule": "warmup"}, {}):
        with pytest.raises(ValueError, match="anneal"):
            build("synib-random", **words, **schedule)


@pytest.mark.parametrize(("word", "reference"), [("uniform", Uniform), ("unimodal", Unimodal)])
def test_a_reference_in_words_is_the_reference(word, reference, key):
    model = FusionModel.mlp(WIDTHS, hidden=[5], classes=3, head_hidden=[])
    x, y = {name: torch.randn(6, width) for name, width in WIDTHS.items()}, torch.arange(6) % 3
    losses = [build("synib-marginal", draws=2, reference=one)(model, x, y, key=key)[0] for one in (word, reference())]
    assert torch.equal(*losses)
    assert isinstance(build("synib-marginal", draws=2, reference=word).reference, reference)


def test_class_shuffled_is_the_noise_of_that_name():
    assert type(build("synib-random", p=1.0, noise="class-shuffled").noise) is ClassShuffledNoise
