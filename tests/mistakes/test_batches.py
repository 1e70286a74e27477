"""Mistakes in what an objective is called with: models, batches, targets and weights; one sentence each."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from synib import (
    BlackBoxModel,
    Categorical,
    ClassShuffledNoise,
    FusionModel,
    LearnedMask,
    MatchedNoise,
    OnLatents,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Tokens,
    Vanilla,
    keys,
)
from synib.models import ConcatFusion
from synib.objective import Objective
from synib.training import backward

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


def table(rows):
    return pytest.mark.parametrize(("call", "said"), rows.values(), ids=rows.keys())


def refused(call, said):
    with pytest.raises(ValueError, match=said) as mistake:
        call()
    assert "\n" not in str(mistake.value)


@table(
    {
        "logits": (lambda: SynIB()(MODEL(x()), x(), Y), "got Tensor: pass the model itself, not its output"),
        "a class": (lambda: SynIB()(FusionModel, x(), Y), "got the class FusionModel"),
        "two arguments": (lambda: SynIB()(lambda image, text: image, x(), Y), r"model\(m\['image'\], m\['text'\]\)"),
        "one tensor": (lambda: Vanilla()(nn.Linear(5, 3), x(), Y), "The model is called with one dict of name → tens"),
        "a fusion of one tensor": (
            lambda: Vanilla()(FusionModel({k: nn.Identity() for k in WIDTHS}, nn.Linear(5, 3)), x(), Y),
            "The fusion is called with one dict of name → tensor, but it expects other arguments: use ConcatFusion",
        ),
        "a model elsewhere": (
            lambda: Vanilla(check=False)(MODEL, {k: v.to("meta") for k, v in x().items()}, Y.to("meta")),
            "'image' is on meta, but its encoder is on cpu",
        ),
        "latents of a function": (lambda: OnLatents(SynIB())(image, x(), Y), "has latents; got BlackBoxModel"),
        "counterfactuals of another modality": (
            lambda: SynIB().counterfactuals(MODEL, {"image": x()["image"], "txt": x()["text"]}, Y),
            "unknown: 'txt'; missing: 'text'",
        ),
        "classes without heads": (
            lambda: SynIB(RandomMask(1.0), ClassShuffledNoise())(MODEL, x(), Y),
            "unimodal heads predict, but the model has no head for 'image', 'text': give",
        ),
        "inputs for latents": (
            lambda: SynIB()(MODEL.on_latents(), x(), Y),
            "'image' has width 3, but the fusion expects",
        ),
        "predictors in a list": (lambda: SynIB()(image, x(), Y, unimodal=[nn.Identity()]), "a dict .*; got list"),
        "a predictor of another modality": (
            lambda: SynIB()(image, x(), Y, unimodal={"img": nn.Identity()}),
            "predictor for 'img', which is not one of the modalities: 'image', 'text'",
        ),
        "predictors that are never used": (
            lambda: SynIB()(MODEL, x(), Y, unimodal={"image": nn.Identity()}),
            "FusionModel has its own predictors: give it heads instead",
        ),
    }
)
def test_what_is_no_model_is_refused(call, said):
    refused(call, said)


@table(
    {
        "a target elsewhere": (lambda: SynIB()(MODEL, x(), Y.to("meta")), "on meta but 'image' is on cpu: move one"),
        "a modality elsewhere": (
            lambda: SynIB()(MODEL, x(text=torch.zeros(N, 2, device="meta")), Y),
            "'image' is on cpu, 'text' is on meta",
        ),
        "double precision from numpy": (
            lambda: SynIB()(MODEL, x(image=torch.zeros(N, 3, dtype=torch.float64)), Y),
            r"'image' is torch\.float64, but its encoder is torch\.float32: use x\.float\(\)",
        ),
        "modalities interchanged": (
            lambda: SynIB()(MODEL, {"image": torch.zeros(N, 2), "text": torch.zeros(N, 3)}, Y),
            "'image' has width 2, but its encoder expects 3",
        ),
        "an array for the target": (
            lambda: SynIB()(MODEL, x(), Y.numpy()),
            r"got ndarray: convert it with torch\.as_tensor\(target\)",
        ),
        "a misspelt modality": (
            lambda: SynIB(corrupt=["img"])(MODEL, x(), Y),
            "corrupt contains 'img', which is not one of the modalities",
        ),
        "tokens for a vector": (
            lambda: Vanilla()(MODEL, x(text=Tokens(torch.zeros(N, 4, 2), HIDDEN)), Y),
            r"'text' is synib\.Tokens, but its encoder",
        ),
        "ids under normal noise": (
            lambda: SynIB(noise=StandardNoise())(lambda m: m["image"] + m["text"].sum(), x(text=IDS), Y),
            r"'text' holds integers \(torch\.int64\), but StandardNoise draws real numbers: .*ShuffledNoise\(\)",
        ),
        "ids under a search": (
            lambda: SynIB(LearnedMask(2), ShuffledNoise())(
                image, x(text=IDS), Y, unimodal={"image": lambda v: v, "text": lambda ids: ids.float()}
            ),
            r"LearnedMask mixes noise into the values of 'text', which is not possible for torch\.int64",
        ),
        "tokens without a width": (
            lambda: SynIB()(image, x(text=Tokens(torch.zeros(N, 4), HIDDEN)), Y),
            r"\(batch, tokens, width\); got \(8, 4\): embed",
        ),
        "tokens without padding": (
            lambda: SynIB()(image, x(text=Tokens(torch.zeros(N, 4, 2), None)), Y),
            "'text' has Tensor and NoneType",
        ),
        "a seed for the key": (lambda: SynIB()(MODEL, x(), Y, key=7), r"such as synib\.keys\.key\(7\); got 7"),
        "examples of half the rows": (
            lambda: SynIB(HALF)(MODEL, x(), Y, examples=torch.arange(4)),
            r"of the 8 rows in the training data; got shape \(4,\) of torch\.int64",
        ),
        "examples that the mask does not know": (
            lambda: SynIB(HALF)(MODEL, x(), Y, examples=torch.arange(N)),
            "covers training examples 0 to 3, but the batch contains 0 to 7",
        ),
        "a weight for each class": (
            lambda: SynIB()(MODEL, x(), Y, sample_weight=torch.ones(3)),
            r"one number for each of 8 examples; got shape \(3,\)",
        ),
        "a negative weight": (
            lambda: SynIB()(MODEL, x(), Y, sample_weight=-torch.ones(N)),
            "sample_weight must be finite",
        ),
        "class weights of other classes": (
            lambda: SynIB(family=Categorical(weight=[1.0, 2.0]))(MODEL, x(), Y),
            "weight has 2 entries, but the prediction has 3 classes",
        ),
    }
)
def test_a_batch_that_cannot_be_meant_is_refused_before_it_is_learned_from(call, said):
    refused(call, said)


@table(
    {
        "a tuple": (lambda m: (m["image"], None), r"got tuple: wrap it, for example lambda m: model\(m\)\[0\]"),
        "an output of Hugging Face": (lambda m: SimpleNamespace(logits=m["image"]), r"got .*model\(m\)\.logits"),
        "a dict": (
            lambda m: {"logits": m["image"]},
            r"got dict: wrap it, for example lambda m: model\(m\)\['logits'\]",
        ),
        "nothing": (lambda m: None, r"got NoneType\."),
        "whole numbers": (lambda m: m["image"].long(), r"as real numbers; got torch\.int64"),
    }
)
@pytest.mark.parametrize("objective", [SynIB(), Vanilla()], ids=["synib", "vanilla"])
@pytest.mark.parametrize("independent_rows", [False, True])
def test_a_model_that_returns_something_else_is_told_what_to_return(objective, independent_rows, call, said):
    model = BlackBoxModel(call, independent_rows=independent_rows)
    refused(lambda: objective(model, x(), Y), f"A model must return .*the family's parameters.*{said}")


@pytest.mark.parametrize("width", [1, 4])
def test_a_head_of_another_width_than_the_fusion_is_refused(width):
    encoders = {name: nn.Linear(n, 4) for name, n in WIDTHS.items()}
    heads = {name: nn.Linear(4, width) for name in WIDTHS}
    model = FusionModel(encoders, ConcatFusion(dict.fromkeys(WIDTHS, 4), [3]), heads)
    refused(
        lambda: SynIB()(model, x(), Y),
        rf"'image' returns shape \(8, {width}\), but the fusion returns \(8, 3\): give both",
    )


@pytest.mark.parametrize("training", [True, False])
def test_noise_matched_to_one_width_is_not_put_into_another(training):
    noise = MatchedNoise(widths={"image": 3, "text": 5}).train(training)
    refused(lambda: SynIB(noise=noise)(MODEL, x(), Y), "MatchedNoise expects 'text' with width 5; got 2")


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


# Gradients


class OfEachExample(Objective):
    """A method whose loss forgets the mean."""

    def loss(self, model, batch, key):
        return self.intact(model, batch.modalities)[1].mean(1), {}


class Item(Objective):
    """A method that takes its loss away from the graph."""

    def loss(self, model, batch, key):
        return self.intact(model, batch.modalities)[1].mean().item(), {}


def without_gradients():
    with torch.no_grad():
        backward(SynIB(), MODEL, x(), Y)


@table(
    {
        "of a function": (
            lambda: backward(SynIB(), image, x(), Y),
            r"a module's parameters, but got function: call the",
        ),
        "on latents": (lambda: backward(SynIB(), MODEL.on_latents(), x(), Y), "parameters, but got LatentModel"),
        "under no_grad": (without_gradients, r"torch\.no_grad\(\) disables them"),
        "of a frozen model": (
            lambda: backward(SynIB(), FusionModel.mlp(WIDTHS, [4], 3).requires_grad_(False), x(), Y),
            "nothing to train: no param",
        ),
        "of inputs too wide": (
            lambda: backward(SynIB(), MODEL, x(image=torch.zeros(N, 5)), Y),
            "'image' has width 5, but its encoder expects 3",
        ),
        "without a mean": (lambda: backward(OfEachExample(), MODEL, x(), Y), r"OfEachExample\.loss .*; got shape"),
        "without a graph": (lambda: backward(Item(), MODEL, x(), Y), r"Item\.loss must return .*; got float"),
    }
)
def test_a_gradient_that_cannot_be_is_refused(call, said):
    refused(call, said)
