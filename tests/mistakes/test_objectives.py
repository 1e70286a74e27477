"""Mistakes in objectives, masks, noise, references and families: one sentence each, where the mistake was made."""

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
    Gaussian,
    HideTokens,
    LearnedMask,
    LinearWarmup,
    MatchedNoise,
    OnLatents,
    OracleMask,
    Prior,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Uniform,
    Vanilla,
    keys,
)
from synib.checks import shown
from synib.masks import Probe
from synib.methods import AGM, MCR, OGM, DnR, Experts, MaskedInput, MMPareto, ReconBoost
from synib.models import OptionalEncoder
from synib.objective import Constant
from synib.tokens import optional

WIDTHS, N = {"image": 3, "text": 2}, 8
Y = torch.arange(N) % 3
NAN, INF = float("nan"), float("inf")


def table(rows):
    return pytest.mark.parametrize(("call", "said"), rows.values(), ids=rows.keys())


def refused(call, said):
    with pytest.raises(ValueError, match=said) as mistake:
        call()
    assert "\n" not in str(mistake.value)


SETTINGS = [  # what is made, the setting, values that it cannot have
    (SynIB, "mask", ["random", RandomMask, ShuffledNoise()]),
    (SynIB, "noise", ["shuffled", ShuffledNoise, RandomMask()]),
    (SynIB, "reference", ["uniform", Uniform]),
    (Confidence, "reference", [[0.5, 0.5]]),
    (SynIB, "family", [Bernoulli]),
    (Vanilla, "family", ["bernoulli"]),
    (SynIB, "weight", [-2.0, INF, {"image": 1.0}, torch.ones(2), nn.Linear(1, 1)]),
    (Constant, "weight", [-1e-9, NAN]),
    (lambda weight: LinearWarmup(weight, 5), "weight", ["10", -1.0]),
    (lambda weight: Annealing(weight, 5), "weight", [NAN]),
    (lambda steps: LinearWarmup(1.0, steps), "steps", [0.1, 0]),
    (lambda steps: Annealing(1.0, steps), "steps", [0.5, 0]),
    (SynIB, "unimodal_weight", [-1.0, NAN]),
    (Vanilla, "unimodal_weight", ["1"]),
    (SynIB, "subsets", ["all"]),
    (SynIB, "sample", [0, 1.5]),
    (SynIB, "steps", [0, 1.5]),
    (SynIB, "draws", [0, 1.5]),
    (lambda debias: SynIB(draws=4, debias=debias), "debias", ["no"]),
    (lambda draws: SynIB(draws=draws, debias=True), "draws", [1, 3]),
    (SynIB, "corrupt", ["image", []]),
    (Vanilla, "check", ["yes"]),
    (OnLatents, "objective", [Vanilla(), SynIB]),
    (lambda noise: MaskedInput(RandomMask(), noise), "noise", ["standard"]),
    (lambda mask: MaskedInput(mask, StandardNoise()), "mask", [0.5]),
    (AGM, "alpha", ["1", -1.0]),
    (MCR, "game", ["1", -1.0]),
    (MCR, "contrast", [-1.0]),
    (MCR, "temperature", [0.0]),
    (OGM, "alpha", ["1", -0.1]),
    (OGM, "start", [0.5, -1]),
    (OGM, "stop", [1.5, 0]),
    (MMPareto, "scale", ["1", 0.0]),
    (DnR, "strength", [-1.0]),
    (DnR, "every", [2.5, 0]),
    (DnR, "times", [-1]),
    (DnR, "threshold", [-0.1]),
    (ReconBoost, "stage", [1.5, 0]),
    (ReconBoost, "rectify", [-1]),
    (ReconBoost, "reconcile", [-1.0]),
    (ReconBoost, "consistency", [-0.1]),
    (lambda l2: Experts(SynIB(), l2), "l2", ["1", 0.0, NAN]),
    (RandomMask, "p", ["0.5", {"image": 0.5}, -0.01, 1.01, NAN]),
    (RandomMask, "over", ["pixels", "channels"]),
    (LearnedMask, "steps", [2.5, 0]),
    (LearnedMask, "lr", ["0.1", 0.0]),
    (LearnedMask, "temperature", [-1.0]),
    (LearnedMask, "sparsity", [NAN, -1.0]),
    (LearnedMask, "norm", ["max"]),
    (LearnedMask, "threshold", [1.5]),
    (LearnedMask, "over", ["pixels"]),
    (AmortizedMask, "widths", [64]),
    (lambda **s: AmortizedMask(WIDTHS, **s), "hidden", [[64]]),
    (lambda **s: AmortizedMask(WIDTHS, **s), "sparsity", [-1.0]),
    (lambda **s: AmortizedMask(WIDTHS, **s), "temperature", [0.0]),
    (lambda **s: AmortizedMask(WIDTHS, **s), "threshold", [2.0]),
    (lambda **s: AmortizedMask(WIDTHS, **s), "over", ["modality", "pixels"]),
    (OracleMask, "coordinates", [[0, 1]]),
    (lambda coordinates: OracleMask({"a": coordinates}), "coordinates", [[0.5, 1.7], ["age"]]),
    (lambda only: OracleMask({"a": [0]}, only), "only", [[0, 1]]),
    (MatchedNoise, "widths", [[3, 2]]),
    (MatchedNoise, "momentum", [-0.1, 1.0, NAN]),
    (Gaussian, "dim", ["full", 1.5, 0]),
    (Gaussian, "covariance", ["banded"]),
    (Bernoulli, "pos_weight", [0.0, "2"]),
    (Bernoulli, "label_smoothing", [1.0, -0.1]),
    (Categorical, "weight", [[-1.0, 1.0], [[1.0]]]),
    (Categorical, "label_smoothing", [1.0]),
    (Categorical, "ignore_index", [0.5]),
    (lambda family: Prior(Y, family), "family", [Y]),
    (lambda seed: keys.key(seed), "seed", [0.5]),
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
        "a class": (lambda: SynIB(RandomMask), r"got the class RandomMask: write RandomMask\(\.\.\.\)"),
        "a name with a dot": (lambda: MatchedNoise(widths={"a.b": 3}), r"without a dot; got 'a\.b'"),
        "a prior of a list": (
            lambda: Prior([0, 1], Bernoulli()),
            r"got list: convert it with torch\.as_tensor\(target\)",
        ),
        "a prior of one-hot classes": (lambda: Prior(torch.eye(3).long(), Categorical()), r"shape \(3, 3\)"),
        "a prior of class -1": (lambda: Prior(torch.tensor([-1, 1]), Categorical()), "starting at 0, .*, minimum -1"),
        "a prior of signs": (lambda: Prior(torch.tensor([-1, 1]), Bernoulli()), "0 or 1, .*; got -1"),
        "a prior of other widths": (lambda: Prior(torch.rand(N, 3), Gaussian(2)), r"\(examples, 2\); got \(8, 3\)"),
        "a prior of equal targets": (lambda: Prior(torch.ones(4), Bernoulli()), "all of the given targets are equal"),
        "a prior without a class": (lambda: Prior(torch.tensor([0, 2]), Categorical()), "class 1 of 3 has none"),
        "a reference's name": (lambda: Fixed("uniform"), r"probabilities such as \[0\.7, 0\.3\]; got 'unif"),
        "too much": (lambda: Fixed([0.5, 0.6]), "rho must be positive and sum to 1; got"),
        "impossible classes": (lambda: Fixed([1.0, 0.0]), "rho must be positive and sum to 1; got"),
        "no probability": (lambda: Fixed(1.5), "rho must be positive and sum to 1; got"),
        "no coordinates": (lambda: OracleMask({"a": []}), "has no coordinates to corrupt in 'a'"),
        "coordinate -1": (lambda: OracleMask({"a": [0, -1]}), "counts coordinates from 0; got -1 for 'a'"),
        "coordinates of rows": (
            lambda: OracleMask({"a": torch.ones(2, 3).bool()}),
            r"must be a 1-dimensional sequence of .*; got \(2, 3\)",
        ),
        "numbers that rows lack": (
            lambda: optional(torch.zeros(3), torch.ones(3).bool()),
            r"got \(3,\) of torch.float32",
        ),
        "presence in numbers": (lambda: optional(torch.zeros(3, 2), torch.ones(3)), r"got \(3,\) of torch.float32"),
        "a search that hides": (lambda: SynIB(LearnedMask(), HideTokens()), "LearnedMask .* HideTokens has no values"),
        "classes of parts": (lambda: SynIB(RandomMask(0.5), ClassShuffledNoise()), r"use RandomMask\(1\.0\)"),
        "classes of numbers": (lambda: SynIB(noise=ClassShuffledNoise(), family=Gaussian()), r"got .*Gaussian\("),
    }
)
def test_a_part_that_cannot_be_is_refused_when_it_is_made(call, said):
    refused(call, said)


def oracle(coordinates):
    return OracleMask(coordinates)(torch.zeros(2, 3), keys.key(0), Probe("a", keys.fresh, None))


@table(
    {
        "a wider mask": (lambda: oracle({"a": torch.ones(4).bool()}), "has width 4, but the modality has width 3"),
        "a coordinate too many": (
            lambda: oracle({"a": range(4)}),
            "contains coordinate 3, but the modality has width 3",
        ),
        "coordinates of others": (lambda: oracle({"b": [0]}), "has coordinates for 'b'; got modality 'a'"),
        "a reference of 2 classes": (
            lambda: Fixed([0.5, 0.5])(torch.zeros(4, 3), Categorical(), {}),
            "prediction has 3",
        ),
        "a reference of 3 classes": (
            lambda: Fixed([0.5, 0.25, 0.25])(torch.zeros(4, 1), Bernoulli(), {}),
            "prediction has 2",
        ),
        "a reference of numbers": (lambda: Fixed([0.5, 0.5])(torch.zeros(4, 2), Gaussian(), {}), "class probabilities"),
        "a prior of 2 classes": (
            lambda: Prior(Y % 2, Categorical())(torch.zeros(4, 3), Categorical(), {}),
            "prediction has 3",
        ),
        "a plain tensor": (
            lambda: OptionalEncoder(nn.Linear(5, 2), 2)(torch.zeros(3, 5)),
            r"optional\(x, present\); got",
        ),
    }
)
def test_a_part_that_does_not_fit_the_batch_is_refused(call, said):
    refused(call, said)
