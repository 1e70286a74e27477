"""Mistakes of tired users in models and methods: one sentence each, where it was made."""

import numpy as np
import pytest
import torch
from torch import nn

from synib import Confidence, FusionModel, LearnedMask, LinearWarmup, StandardNoise, SynIB, Unimodal
from synib.checks import shown
from synib.methods import (
    AGM,
    MCR,
    METHODS,
    DnR,
    Experts,
    MaskedInput,
    MMPareto,
    ReconBoost,
    UnimodalModel,
    build,
    settings_of,
)
from synib.models import ConcatFusion, Dropout, mlp, pid_xor_model
from synib.training import backward

WIDTHS, N = {"image": 3, "text": 2}, 8
MODEL = FusionModel.mlp(WIDTHS, hidden=[4], classes=3)
PARTS = {name: nn.Identity() for name in WIDTHS}
X = {name: torch.zeros(N, width) for name, width in WIDTHS.items()}
Y = torch.arange(N) % 3


class Pair(nn.Module):
    """An encoder that returns more than its latent, as recurrent layers do."""

    def forward(self, x):
        return x, None


def table(rows):
    return pytest.mark.parametrize(("call", "said"), rows.values(), ids=rows.keys())


def refused(call, said):
    with pytest.raises(ValueError, match=said) as mistake:
        call()
    assert "\n" not in str(mistake.value)


SETTINGS = [  # what is made, the setting, values that it cannot have
    (lambda hidden: FusionModel.mlp(WIDTHS, hidden), "hidden", [128, "128", [16.0], [0], []]),
    (lambda **s: FusionModel.mlp(WIDTHS, [4], **s), "head_hidden", [True]),
    (lambda **s: FusionModel.mlp(WIDTHS, [4], **s), "fusion_hidden", [32]),
    (lambda **s: FusionModel.mlp(WIDTHS, [4], **s), "classes", [0, ["cat"]]),
    (lambda **s: FusionModel.mlp(WIDTHS, [4], **s), "dropout", ["0.1"]),
    (lambda **s: mlp([3, 4], **s), "dropout", [None]),
    (mlp, "widths", [4]),
    (lambda widths: FusionModel.mlp(widths, [4]), "widths", [[3, 2]]),
    (lambda width: FusionModel.mlp({"image": width, "text": 2}, [4]), "width", [(3, 32, 32), X["image"], 0]),
    (pid_xor_model, "widths", [64]),
    (lambda layers: ConcatFusion(WIDTHS, layers), "layers", [3, []]),
    (lambda widths: ConcatFusion(widths, [3]), "widths", [[3, 2]]),
    (lambda fusion: FusionModel(PARTS, fusion), "fusion", [None, nn.Identity]),
    (lambda **s: FusionModel(PARTS, nn.Identity(), **s), "detach_heads", ["no"]),
    (Dropout, "p", [-0.1, 1.0, float("nan")]),
]


@pytest.mark.parametrize(("make", "setting", "value"), [(m, s, v) for m, s, values in SETTINGS for v in values])
def test_a_setting_that_cannot_be_is_refused_by_its_name_and_value(make, setting, value):
    with pytest.raises(ValueError) as mistake:
        make(**{setting: value})
    assert "\n" not in str(mistake.value)
    assert setting in str(mistake.value)
    assert shown(value) in str(mistake.value)


@table(
    {
        "a name that torch needs": (
            lambda: FusionModel.mlp({"type": 3, "text": 2}, [4]),
            "A modality cannot be called",
        ),
        "encoders without names": (lambda: FusionModel([*PARTS.values()], nn.Identity()), "a dict .*; got list"),
        "encoders and fusion swapped": (
            lambda: FusionModel(ConcatFusion(WIDTHS, [3]), PARTS),
            "encoders must be a dict",
        ),
        "functions as encoders": (
            lambda: FusionModel({name: lambda x: x for name in WIDTHS}, nn.Identity()),
            "the one of 'image' is the function <lambda>",
        ),
        "classes as heads": (lambda: FusionModel(PARTS, nn.Identity(), {"text": nn.Identity}), "the one of 'text'"),
        "heads of others": (lambda: FusionModel(PARTS, nn.Identity(), {"c": nn.Identity()}), "got heads for c"),
        "numbers for names": (lambda: FusionModel({0: nn.Identity()}, nn.Identity()), "must be a string .*; got 0"),
        "a name with a dot": (lambda: FusionModel({"a.b": nn.Identity()}, nn.Identity()), r"without a dot; got 'a\.b'"),
        "one encoder": (lambda: FusionModel({"a": nn.Identity()}, nn.Identity()), "at least two modalities; got a"),
    }
)
def test_a_model_that_cannot_be_is_refused_when_it_is_made(call, said):
    refused(call, said)


@table(
    {
        "a tensor": (lambda: MODEL(torch.zeros(N, 5)), "Modalities must be a dict of name → tensor; got Tensor"),
        "one modality of two": (lambda: MODEL({"image": X["image"]}), "are 'image', 'text'; missing: 'text'"),
        "one modality too many": (lambda: MODEL({**X, "audio": X["text"]}), "'image', 'text'; unknown: 'audio'"),
        "arrays": (
            lambda: MODEL({**X, "text": np.zeros((N, 2))}),
            r"'text' must be a tensor or synib\.Tokens; got ndarray",
        ),
        "a fusion of other names": (
            lambda: FusionModel(PARTS, ConcatFusion({"img": 3, "txt": 2}, [1]))(X),
            "fusion has the modalities 'img', 'txt'; got 'image'",
        ),
        "a fusion of other widths": (
            lambda: FusionModel(PARTS, ConcatFusion({"image": 8, "text": 2}, [1]))(X),
            "'image' has width 3, but the fusion expects 8",
        ),
        "an encoder that returns a pair": (
            lambda: SynIB()(FusionModel({**PARTS, "text": Pair()}, ConcatFusion(WIDTHS, [3])), X, torch.arange(N) % 3),
            "ConcatFusion expects tensors, but the encoder of 'text' returns tuple",
        ),
    }
)
def test_what_a_model_cannot_take_is_refused(call, said):
    refused(call, said)


WARM = {"p": 0.5, "weight": 1.0, "weight_steps": 5}
METHODS_REFUSED = [  # a method, settings, what is said
    (SynIB, {}, "A method must be given by its name, such as 'vanilla'; got the class SynIB"),
    ("synib-rand", {}, "Unknown method 'synib-rand': did you mean 'synib-random'"),
    ("vanilla", {"weight": 1}, r"vanilla has no setting 'weight'; its settings are family, unimodal_weight, check\."),
    ("vanilla", {"reference": "uniform"}, "vanilla has no setting 'reference'"),
    (
        "synib-marginal",
        {"draws": 2, "noise": "standard"},
        "synib-marginal has no setting 'noise'; its settings are draws, deb",
    ),
    ("experts", {"weigth": 1.0}, "experts has no setting 'weigth'; its settings are weight, draws, l2"),
    ("synib-random", {}, "synib-random needs the setting 'p'; its settings are p, noise, over, ref"),
    (
        "synib-random",
        {"p": 0.5, "noise": "pink"},
        "noise must be 'standard', 'matched', 'shuffled', 'class-shuffled', 'zeros' or 'hidden'; got 'p",
    ),
    ("unimodal", {}, "unimodal needs the setting 'modality'; its settings are modality, family"),
    ("unimodal-a", {"modality": "b"}, "unimodal-a has no setting 'modality'; its settings are family"),
    ("synib-random", {"p": "0.5"}, r"p must be between 0 and 1; got '0\.5'"),
    ("ogm", {"start": 3, "stop": 3}, "stop must be a whole number of at least 4; got 3"),
    ("ogm", {"unimodal_weight": 0.0}, "heads must be trained: set unimodal_weight above 0"),
    ("synib-random", {**WARM, "weight_schedule": "cosine"}, "must be one of warmup, anneal, .*; got 'cosine' and 5"),
    ("synib-random", {**WARM, "weight_schedule": ["warmup"]}, r"weight_schedule must be .*; got \['warmup'\] and 5"),
    ("synib-random", {"p": 0.5, "weight_schedule": "warmup"}, "with weight_steps; got 'warmup' and None"),
    ("synib-random", WARM, "weight_schedule must be one of .*; got None and 5"),
    ("synib-random", {**WARM, "weight_schedule": "anneal", "weight_steps": 2.5}, r"steps must be a whole .*; got 2\.5"),
    (
        "synib-random",
        {"p": 0.5, "weight_schedule": "anneal", "weight_steps": 5},
        "needs the setting weight that it changes",
    ),
    (
        "confidence",
        {"weight": LinearWarmup(1.0, 2), "weight_schedule": "anneal", "weight_steps": 5},
        "got LinearWarmup",
    ),
    ("synib-random", {"p": 0.5, "reference": "prior"}, "reference must be 'uniform' or 'unimodal'; got 'prior'"),
    ("synib-random", {"p": 0.5, "space": "tokens"}, "space must be 'inputs', or 'latents' .*; got 'tokens'"),
    ("confidence", {"space": "latents"}, "'latents' for a SynIB method; got 'latents' for confidence"),
    ("masked-random", {"p": 1.0, "noise": "class-shuffled"}, r"use ShuffledNoise\(\) for masked inputs"),
]


@pytest.mark.parametrize(("method", "settings", "said"), METHODS_REFUSED)
def test_a_method_that_cannot_be_is_refused(method, settings, said):
    refused(lambda: build(method, **settings), said)


FIVE = {name: torch.zeros(N, 3) for name in "abcde"}
DETACHED = FusionModel.mlp(WIDTHS, [4], 3, head_hidden=[], detach_heads=True)


@table(
    {
        "experts of a name": (lambda: Experts("synib"), r"synergy must be an Objective such as SynIB\(\); got 'synib'"),
        "experts of a function": (
            lambda: build("experts").attach(lambda m: m),
            "FusionModel; got the function <lambda>",
        ),
        "experts with more than a loss": (lambda: Experts(DnR()), "DnR also changes weights between epochs"),
        "experts that are none yet": (
            lambda: build("experts")(MODEL, X, Y),
            r"call attach\(model\) before creating the optimiser",
        ),
        "a reference to intact modalities": (
            lambda: Confidence(reference=Unimodal()),
            "corrupts no modality, so it cannot use the Unimodal reference",
        ),
        "masks that search": (lambda: MaskedInput(LearnedMask(), StandardNoise()), "LearnedMask searches a unimodal"),
        "a game of a function": (lambda: MCR()(lambda m: m["image"], X, Y), "between encoders, but a plain callable"),
        "gradients that are kept out": (
            lambda: backward(MMPareto(), DETACHED, X, Y),
            "detach_heads=True blocks them",
        ),
        "stages of whom": (lambda: backward(ReconBoost(), DETACHED, X, Y), r"call attach\(model\) first"),
        "too many modalities": (
            lambda: AGM()(lambda m: m["a"], FIVE, Y),
            r"2 to 4 modalities; got 5 \(a, b, c, d, e\)",
        ),
        "a modality that is not there": (
            lambda: UnimodalModel("audio").predict(MODEL, X),
            "There is no modality 'audio' to train alone; the modalities are 'image', 'text'",
        ),
    }
)
def test_a_method_that_cannot_be_used_so_is_refused(call, said):
    refused(call, said)


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_that_a_method_names_is_taken(name):
    given = {
        "p": 0.5, "coordinates": {"image": [0]}, "steps": 2, "mask_lr": 1.0, "sparsity": 0.1, "widths": WIDTHS, "draws": 2,
        "modality": "image", "synergy": SynIB(),
    }  # fmt: skip
    takes = settings_of(METHODS[name])
    needed = {setting: given[setting] for setting, must in takes.items() if must}
    for setting in [s for s in takes if s not in needed]:
        said = ""
        try:
            METHODS[name](**needed, **{setting: object()})
        except (ValueError, TypeError) as e:  # for its value, which is none
            said = str(e)
        assert "unexpected keyword" not in said
