"""Mistakes of tired users in objectives, masks, noise, references and families: one sentence each, where it was made."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from synib import (
    AmortizedMask,
    Annealing,
    Bernoulli,
    Categorical,
    ClassShuffledNoise,
    Confidence,
    Fixed,
    FusionModel,
    Gaussian,
    LearnedMask,
    LinearWarmup,
    MatchedNoise,
    OracleMask,
    Prior,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Tokens,
    Uniform,
    Vanilla,
    keys,
)
from synib.methods import MaskedInput
from synib.models import ConcatFusion
from synib.objective import Objective

WIDTHS, N = {"image": 3, "text": 2}, 8
MODEL = FusionModel.mlp(WIDTHS, hidden=[4], classes=3)
Y = torch.arange(N) % 3
IDS = torch.randint(5, (N, 2))
HIDDEN = torch.zeros(N, 4, dtype=torch.bool)
HALF = OracleMask({"image": [0], "text": [0]}, only=[True] * 4)


def x(**changed):
    return {name: torch.randn(N, width) for name, width in WIDTHS.items()} | changed


def image(m):
    return m["image"]


def heads_of(width):
    encoders = {name: nn.Linear(n, 4) for name, n in WIDTHS.items()}
    heads = {name: nn.Linear(4, width) for name in WIDTHS}
    return FusionModel(encoders, ConcatFusion(dict.fromkeys(WIDTHS, 4), [3]), heads)


def table(rows):
    return pytest.mark.parametrize(("call", "said"), rows.values(), ids=rows.keys())


def refused(call, said):
    with pytest.raises(ValueError, match=said) as mistake:
        call()
    assert "\n" not in str(mistake.value)


# What an objective is made of


@table(
    {
        "a mask's name": (lambda: SynIB("random"), r"mask is a Mask such as RandomMask\(0\.5\); got 'random'"),
        "a mask's class": (lambda: SynIB(RandomMask), r"got the class RandomMask: write RandomMask\(\.\.\.\)"),
        "mask and noise swapped": (
            lambda: SynIB(ShuffledNoise(), RandomMask()),
            r"mask is a Mask .*; got ShuffledNoise\(\)",
        ),
        "a noise's name": (
            lambda: SynIB(noise="shuffled"),
            r"noise is a Noise such as ShuffledNoise\(\); got 'shuffled'",
        ),
        "a noise's class": (
            lambda: SynIB(noise=ShuffledNoise),
            "noise is a Noise .*; got the class ShuffledNoise: write",
        ),
        "masked inputs' noise": (lambda: MaskedInput(RandomMask(), "standard"), "noise is a Noise .*; got 'standard'"),
        "masked inputs' mask": (lambda: MaskedInput(0.5, StandardNoise()), r"mask is a Mask .*; got 0\.5"),
        "a reference's name": (
            lambda: SynIB(reference="uniform"),
            r"reference is a Reference such as Uniform\(\); got 'uni",
        ),
        "a reference's numbers": (
            lambda: Confidence(reference=[0.5, 0.5]),
            r"reference is a Reference .*; got \[0\.5, 0\.5\]",
        ),
        "a reference's class": (lambda: SynIB(reference=Uniform), "got the class Uniform: write"),
        "a family's name": (lambda: Vanilla("bernoulli"), r"family is a Family such as Bernoulli\(\); got 'bernoulli'"),
        "a family's class": (lambda: SynIB(family=Bernoulli), "family is a Family .*; got the class Bernoulli: write"),
        "no weight": (lambda: SynIB(weight=None), "The weight of the penalty is a number of at least 0; got None"),
        "a weight for each modality": (
            lambda: SynIB(weight={"image": 1.0}),
            "weight of the penalty .*; got {'image': 1.0}",
        ),
        "two weights": (lambda: SynIB(weight=torch.ones(2)), r"weight of the penalty .*; got tensor\(\[1\., 1\.\]\)"),
        "an infinite weight": (lambda: SynIB(weight=float("inf")), "weight of the penalty .*; got inf"),
        "a layer as the weight": (lambda: SynIB(weight=nn.Linear(1, 1)), r"weight of the penalty .*; got Linear\("),
        "a text as a schedule's weight": (lambda: LinearWarmup("10", 5), "weight of the penalty .*; got '10'"),
        "a share of training as a warm-up": (lambda: LinearWarmup(1.0, 0.1), r"steps is a whole number .*; got 0\.1"),
        "a text as the heads' weight": (
            lambda: Vanilla(unimodal_weight="1"),
            "unimodal_weight is a number .*; got '1'",
        ),
        "a fraction of a draw": (lambda: SynIB(draws=1.5), r"draws is a whole number of at least 1; got 1\.5"),
        "a fraction of the counterfactuals": (lambda: SynIB(sample=1.5), r"sample is a whole number .*; got 1\.5"),
        "no as a text": (lambda: SynIB(draws=4, debias="no"), "debias is True or False; got 'no'"),
        "a space of one's own": (lambda: SynIB(space="tokens"), "space is 'inputs' or 'latents'; got 'tokens'"),
        "one share for all": (lambda: SynIB(shares=0.5), r"shares are a dict of modality → number; got 0\.5"),
        "shares without names": (lambda: SynIB(shares=[1, 0]), r"shares are a dict .*; got \[1, 0\]"),
        "a share below nothing": (
            lambda: SynIB(shares={"image": -1}),
            "The share of 'image' is a number of at least 0; got -1",
        ),
        "a share as a text": (
            lambda: SynIB(shares={"image": "half"}),
            "The share of 'image' is a number .*; got 'half'",
        ),
        "shares of subsets": (
            lambda: SynIB(subsets="proper", shares={"image": 0.5}),
            "shares weigh the penalties of single modalities: leave subsets at 'each'",
        ),
        "a share of training as an annealing": (lambda: Annealing(1.0, 0.5), r"steps is a whole number .*; got 0\.5"),
        "auto": (lambda: SynIB(fused="auto"), "fused is True, False or None; got 'auto'"),
        "yes as a text": (lambda: Vanilla(check="yes"), "check is True, False or None; got 'yes'"),
        "a probability as a text": (lambda: RandomMask("0.5"), r"p lies between 0 and 1; got '0\.5'"),
        "a probability for each modality": (lambda: RandomMask({"image": 0.5}), r"p lies .*; got {'image': 0\.5}"),
        "a fraction of a step": (lambda: LearnedMask(2.5), r"steps is a whole number of at least 1; got 2\.5"),
        "a learning rate as a text": (lambda: LearnedMask(lr="0.1"), r"lr is a number above 0; got '0\.1'"),
        "a price that is no number": (lambda: LearnedMask(sparsity=float("nan")), "sparsity is a number .*; got nan"),
        "coordinates without names": (
            lambda: OracleMask([0, 1]),
            r"coordinates are a dict of modality .*; got \[0, 1\]",
        ),
        "coordinates between two": (
            lambda: OracleMask({"image": [0.5, 1.7]}),
            r"of 'image' are .*; got \[0\.5, 1\.7\]",
        ),
        "columns by name": (
            lambda: OracleMask({"image": ["age"]}),
            r"of 'image' are one row of indices .*; got \['age'\]",
        ),
        "one width for all": (lambda: AmortizedMask(64), "widths are a dict of modality → width, .*; got 64"),
        "a list of hidden widths": (
            lambda: AmortizedMask(WIDTHS, hidden=[64]),
            r"hidden is a whole number .*; got \[64\]",
        ),
        "widths without names": (lambda: MatchedNoise(widths=[3, 2]), r"widths are a dict .*; got \[3, 2\]"),
        "a name with a dot": (lambda: MatchedNoise(widths={"a.b": 3}), r"without a dot in it; got 'a\.b'"),
        "a covariance for the dimension": (lambda: Gaussian("full"), "dim is a whole number of at least 1; got 'full'"),
        "half a dimension": (lambda: Gaussian(1.5), r"dim is a whole number of at least 1; got 1\.5"),
        "prior and family swapped": (lambda: Prior(Categorical(), Y), r"family is a Family .*; got tensor\("),
        "a prior of a list": (
            lambda: Prior([0, 1, 1], Bernoulli()),
            r"target is a tensor; got list: torch\.as_tensor\(target\)",
        ),
        "a prior of one-hot classes": (
            lambda: Prior(torch.eye(3).long(), Categorical()),
            r"whole class .* shape \(3, 3\)",
        ),
        "a prior of class -1": (lambda: Prior(torch.tensor([-1, 1]), Categorical()), "from 0 on, .*, the least -1"),
        "a prior of fractions": (
            lambda: Prior(torch.rand(N), Categorical()),
            r"whole class numbers .* of torch\.float32",
        ),
        "a prior of signs": (lambda: Prior(torch.tensor([-1, 1]), Bernoulli()), "Bernoulli targets are 0 or 1; got -1"),
        "a prior of other widths": (
            lambda: Prior(torch.rand(N, 3), Gaussian(2)),
            r"targets \(examples, 2\); got \(8, 3\)",
        ),
        "a reference's name for its numbers": (
            lambda: Fixed("uniform"),
            r"probabilities, such as \[0\.7, 0\.3\]; got 'unif",
        ),
        "no reference": (lambda: Fixed(None), "A reference is probabilities, .*; got None"),
        "a seed between two": (lambda: keys.key(0.5), r"seed is a whole number; got 0\.5"),
    }
)
def test_a_part_that_cannot_be_is_refused_when_it_is_made(call, said):
    refused(call, said)


# What an objective is given


@table(
    {
        "logits for the model": (
            lambda: SynIB()(MODEL(x()), x(), Y),
            "got Tensor: give the model itself, not its output",
        ),
        "a model's class": (
            lambda: SynIB()(FusionModel, x(), Y),
            "The model is a FusionModel .*; got the class FusionModel",
        ),
        "no model": (lambda: SynIB()(None, x(), Y), "a FusionModel or a function of the modalities; got NoneType"),
        "a model of two arguments": (
            lambda: SynIB()(lambda image, text: image, x(), Y),
            r"called with one dict .*: model\(m\['image'\], m\['text'\]\)",
        ),
        "a model of one tensor": (
            lambda: Vanilla()(nn.Linear(5, 3), x(), Y),
            "The model is called with one dict of name → tens",
        ),
        "a fusion of one tensor": (
            lambda: Vanilla()(FusionModel({k: nn.Identity() for k in WIDTHS}, nn.Linear(5, 3)), x(), Y),
            "The fusion is called with one dict of name → tensor, and takes something else: use ConcatFusion",
        ),
        "an array for the target": (
            lambda: SynIB()(MODEL, x(), Y.numpy()),
            r"The target is a tensor; got ndarray: torch\.as_tensor\(target\) makes it",
        ),
        "no target": (lambda: Vanilla()(MODEL, x(), None), r"The target is a tensor; got NoneType\."),
        "a target elsewhere": (
            lambda: SynIB()(MODEL, x(), Y.to("meta")),
            "The target is on meta and 'image' on cpu: move one",
        ),
        "a modality elsewhere": (
            lambda: SynIB()(MODEL, x(text=torch.zeros(N, 2, device="meta")), Y),
            "'image' is on cpu, 'text' is on meta",
        ),
        "a model elsewhere": (
            lambda: Vanilla(check=False)(MODEL, {k: v.to("meta") for k, v in x().items()}, Y.to("meta")),
            "'image' is on meta and its encoder on cpu",
        ),
        "double precision from numpy": (
            lambda: SynIB()(MODEL, x(image=torch.zeros(N, 3, dtype=torch.float64)), Y),
            r"'image' is torch\.float64 and its encoder torch\.float32: use x\.float\(\)",
        ),
        "modalities interchanged": (
            lambda: SynIB()(MODEL, {"image": torch.zeros(N, 2), "text": torch.zeros(N, 3)}, Y),
            "'image' is 2 wide and its encoder takes 3",
        ),
        "a misspelt share": (
            lambda: SynIB(shares={"img": 0.0})(MODEL, x(), Y),
            "shares name 'img'; the modalities are 'image', 'text'",
        ),
        "latents of a function": (
            lambda: SynIB(space="latents")(image, x(), Y),
            "space='latents' needs a model with encoders, such as FusionModel; got the function image",
        ),
        "classes without heads": (
            lambda: SynIB(RandomMask(1.0), ClassShuffledNoise())(MODEL, x(), Y),
            "unimodal heads predict, and the model has none for 'image', 'text': give",
        ),
        "inputs for latents": (
            lambda: SynIB()(MODEL.on_latents(), x(), Y),
            "latent of 'image' is 3 wide, and the fusion takes 4",
        ),
        "tokens for a vector": (
            lambda: Vanilla()(MODEL, x(text=Tokens(torch.zeros(N, 4, 2), HIDDEN)), Y),
            r"'text' is synib\.Tokens and its encoder",
        ),
        "ids under normal noise": (
            lambda: SynIB(noise=StandardNoise())(lambda m: m["image"] + m["text"].sum(), x(text=IDS), Y),
            r"'text' holds whole numbers \(torch\.int64\), and StandardNoise draws real ones: .*ShuffledNoise\(\)",
        ),
        "bits under matched noise": (
            lambda: SynIB(RandomMask(0.5), MatchedNoise())(image, x(text=IDS > 2), Y),
            r"'text' holds truth values \(torch\.bool\), and MatchedNoise draws real",
        ),
        "ids under a search": (
            lambda: SynIB(LearnedMask(2), ShuffledNoise())(
                image, x(text=IDS), Y, unimodal={"image": lambda v: v, "text": lambda ids: ids.float()}
            ),
            r"LearnedMask mixes noise into the values of 'text', and torch\.int64 cannot be mixed",
        ),
        "tokens without a width": (
            lambda: SynIB()(image, x(text=Tokens(torch.zeros(N, 4), HIDDEN)), Y),
            r"\(batch, tokens, width\); got \(8, 4\): embed",
        ),
        "tokens without padding": (
            lambda: SynIB()(image, x(text=Tokens(torch.zeros(N, 4, 2), None)), Y),
            "'text' has Tensor and NoneType",
        ),
        "tokens of arrays": (
            lambda: SynIB()(image, x(text=Tokens(np.zeros((N, 4, 2)), np.zeros((N, 4)))), Y),
            "'text' has ndarray and ndarray",
        ),
        "a seed for the key": (
            lambda: SynIB()(MODEL, x(), Y, key=7),
            r"int64 tensor, such as synib\.keys\.key\(7\); got 7",
        ),
        "a generator for the key": (lambda: SynIB()(MODEL, x(), Y, key=torch.Generator()), "key is .*; got <torch"),
        "a real number for the key": (
            lambda: SynIB()(MODEL, x(), Y, key=torch.tensor(1.0)),
            r"key is .*; got tensor\(1\.\)",
        ),
        "examples of half the rows": (
            lambda: SynIB(HALF)(MODEL, x(), Y, examples=torch.arange(4)),
            r"of 8 rows; got shape \(4,\) of torch\.int64",
        ),
        "a choice of examples": (
            lambda: SynIB(HALF)(MODEL, x(), Y, examples=Y > 0),
            r"got shape \(8,\) of torch\.bool",
        ),
        "examples that the mask does not know": (
            lambda: SynIB(HALF)(MODEL, x(), Y, examples=torch.arange(N)),
            "knows training examples 0 to 3; the batch holds 0 to 7",
        ),
        "examples counted from the end": (
            lambda: SynIB(HALF)(MODEL, x(), Y, examples=-torch.ones(N).long()),
            "0 to 3; the batch holds -1 to -1",
        ),
        "unimodal predictors in a list": (
            lambda: SynIB()(image, x(), Y, unimodal=[nn.Identity()]),
            "unimodal is a dict of modality → .*; got list",
        ),
        "a misspelt unimodal predictor": (
            lambda: SynIB()(image, x(), Y, unimodal={"img": nn.Identity()}),
            "predictor of 'img'; the modalities are 'image', 'text'",
        ),
        "unimodal predictors that are never used": (
            lambda: SynIB()(MODEL, x(), Y, unimodal={"image": nn.Identity()}),
            "FusionModel has its own: give it heads instead",
        ),
    }
)
def test_a_call_that_cannot_be_meant_is_refused_before_it_learns(call, said):
    refused(call, said)


@table(
    {
        "a tuple": (lambda m: (m["image"], None), r"got tuple: wrap it, as in lambda m: model\(m\)\[0\]"),
        "an output of Hugging Face": (
            lambda m: SimpleNamespace(logits=m["image"]),
            r"got SimpleNamespace: .*model\(m\)\.logits",
        ),
        "a dict": (lambda m: {"logits": m["image"]}, r"got dict: wrap it, as in lambda m: model\(m\)\['logits'\]"),
        "nothing": (lambda m: None, r"got NoneType\."),
        "an array": (lambda m: m["image"].numpy(), r"got ndarray\."),
        "whole numbers": (lambda m: m["image"].long(), r"which are real numbers; got torch\.int64"),
    }
)
@pytest.mark.parametrize(
    "objective", [SynIB(fused=False), SynIB(fused=True), Vanilla()], ids=["loop", "fused", "vanilla"]
)
def test_a_model_that_answers_with_something_else_is_told_what_to_return(objective, call, said):
    refused(lambda: objective(call, x(), Y), f"A model answers with .*the family's parameters.*{said}")


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_head_of_another_width_than_the_fusion_is_refused(width):
    refused(
        lambda: SynIB()(heads_of(width), x(), Y),
        rf"'image' predicts \(8, {width}\), the fusion \(8, 3\): give it as many",
    )


@pytest.mark.parametrize("training", [True, False])
def test_noise_matched_to_one_width_is_not_put_into_another(training):
    noise = MatchedNoise(widths={"image": 3, "text": 5}).train(training)
    refused(lambda: SynIB(noise=noise)(MODEL, x(), Y), "MatchedNoise knows 'text' as 5 wide; got 2")


def test_a_row_number_may_come_from_a_list():
    mask = OracleMask({"image": [0], "text": [0]}, only=[True, False] * 4)
    objective, inputs = SynIB(mask, StandardNoise()), x()
    losses = [objective(MODEL, inputs, Y, key=keys.key(0), examples=e)[0] for e in (list(range(N)), torch.arange(N))]
    assert losses[0] == losses[1]


def test_what_a_model_itself_does_wrong_is_not_explained_away():
    def breaks(m):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        SynIB()(breaks, x(), Y)
    with pytest.raises(TypeError, match="unsupported operand"):
        SynIB()(lambda m: m["image"] + "text", x(), Y)


# Backward


class LossAlone(Objective):
    """A method of one's own that forgets its parts."""

    def loss(self, model, batch, key):
        return self.intact(model, batch.modalities)[1].mean()


class OfEachExample(Objective):
    """One that forgets the mean."""

    def loss(self, model, batch, key):
        return self.intact(model, batch.modalities)[1].mean(1), {}


class Item(Objective):
    """One that gives a number away from its graph."""

    def loss(self, model, batch, key):
        return self.intact(model, batch.modalities)[1].mean().item(), {}


def without_gradients():
    with torch.no_grad():
        SynIB().backward(MODEL, x(), Y)


@table(
    {
        "of a function": (
            lambda: SynIB().backward(image, x(), Y),
            r"a module's parameters; got function: call the objective",
        ),
        "on latents": (
            lambda: SynIB().backward(MODEL.on_latents(), MODEL.encode_all(x()), Y),
            "parameters; got OnLatents",
        ),
        "under no_grad": (without_gradients, r"torch\.no_grad\(\) switches them off"),
        "of a frozen model": (
            lambda: SynIB().backward(FusionModel.mlp(WIDTHS, [4], 3).requires_grad_(False), x(), Y),
            "nothing to train: no param",
        ),
        "of inputs too wide": (
            lambda: SynIB().backward(MODEL, x(image=torch.zeros(N, 5)), Y),
            "'image' is 5 wide and its encoder takes 3",
        ),
        "of a method without parts": (
            lambda: LossAlone().backward(MODEL, x(), Y),
            r"LossAlone\.loss returns .*; got Tensor\.",
        ),
        "of a method without a mean": (
            lambda: OfEachExample().backward(MODEL, x(), Y),
            r"OfEachExample\.loss returns one number .*; got shape \(8,\): take the",
        ),
        "of a method without a graph": (
            lambda: Item().backward(MODEL, x(), Y),
            r"Item\.loss returns .*; got float, dict\.",
        ),
    }
)
def test_a_gradient_that_cannot_be_is_refused(call, said):
    refused(call, said)
