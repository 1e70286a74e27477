import math

import pytest
import torch

import synib
from synib import Bernoulli, FusionModel, Gaussian, OracleMask, RandomMask, StandardNoise, SynIB, Tokens
from synib.methods import Confidence, Vanilla
from synib.objective.checks import check_modalities

MODEL = FusionModel.mlp({"image": 3, "text": 2}, hidden=[4], classes=3)


def good():
    return {"image": torch.randn(8, 3), "text": torch.randn(8, 2)}, torch.arange(8) % 3


def spoilt(**changes):
    x, _ = good()
    return {**x, **changes}


def with_bad(rows, value):
    x = torch.randn(8, 3)
    x[rows, 1] = value
    return x


REFUSED = {
    "mismatched batches": (spoilt(text=torch.randn(7, 2)), "same batch size; got 'image' 8, 'text' 7"),
    "an empty batch": ({"image": torch.zeros(0, 3), "text": torch.zeros(0, 2)}, "every modality has 0 rows"),
    "an unknown name": (spoilt(audio=torch.randn(8, 2)), "modalities are 'image', 'text'; unknown: 'audio'"),
    "a misspelt name": (
        {"image": torch.randn(8, 3), "txt": torch.randn(8, 2)},
        "'image', 'text'; unknown: 'txt'; missing: 'text'",
    ),
    "one modality": ({"image": torch.randn(8, 3)}, r"at least two modalities; got 1 \('image'\)"),
    "no modality": ({}, r"at least two modalities; got 0 \(none\)"),
    "a list": ([torch.randn(8, 3)] * 2, "a dict of name → tensor; got list"),
    "a list inside": (spoilt(text=[1, 2]), "Modality 'text' is a tensor or synib.Tokens; got list"),
    "one dimension": (spoilt(text=torch.randn(8)), r"'text' is \(batch, ...\) with at least 2 .* got \(8,\)"),
    "a NaN": (spoilt(image=with_bad([2], math.nan)), "'image' holds 1 NaN or Inf of 24 numbers, in row 2; expected"),
    "infinities": (spoilt(image=with_bad([1, 5], -math.inf)), "'image' holds 2 NaN or Inf .* in rows 1, 5; expected"),
    "many": (spoilt(image=with_bad(range(8), math.nan)), "holds 8 NaN .* in rows 0, 1, 2, 3, 4 and 3 more; expected"),
}
OBJECTIVES = {"SynIB": SynIB(RandomMask(), StandardNoise()), "Confidence": Confidence(), "Vanilla": Vanilla()}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize(("modalities", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_mistake_in_the_modalities_is_named_in_one_sentence(objective, modalities, message):
    with pytest.raises(ValueError, match=message):
        objective(MODEL, modalities, torch.arange(8) % 3)


@pytest.mark.parametrize("rows", [0, 7, 9])
@pytest.mark.parametrize("sample", [None, 1])
def test_a_target_of_another_length_is_refused(rows, sample):
    x, _ = good()
    with pytest.raises(ValueError, match=rf"a row for each of 8 examples; got shape \({rows},\)"):
        SynIB(RandomMask(), StandardNoise(), sample=sample)(MODEL, x, torch.zeros(rows, dtype=torch.int64))


@pytest.mark.parametrize(
    ("family", "classes", "target", "message"),
    [
        (None, 3, torch.full((8,), 3), "Categorical targets are classes 0 to 2; got 3"),
        (Bernoulli(), 1, torch.full((8,), 2), "Bernoulli targets are 0 or 1; got 2"),
        (Gaussian(), 2, torch.full((8,), math.nan), "Gaussian targets are finite; 8 are not"),
    ],
)
def test_a_target_outside_the_support_is_refused(family, classes, target, message):
    x, _ = good()
    model = FusionModel.mlp({"image": 3, "text": 2}, hidden=[4], classes=classes)
    for objective in (SynIB(RandomMask(), StandardNoise(), family=family), Vanilla(family)):
        with pytest.raises(ValueError, match=message):
            objective(model, x, target)


def test_a_mask_whose_width_differs_is_refused():
    x, y = good()
    with pytest.raises(ValueError, match="oracle mask of 'text' names coordinate 2, but the modality is 2 wide"):
        SynIB(OracleMask({"image": [0], "text": [2]}), StandardNoise())(MODEL, x, y)


def test_a_mask_that_does_not_know_a_modality_is_refused():
    x, y = good()
    with pytest.raises(ValueError, match="knows the coordinates of 'image'; asked for 'text'"):
        SynIB(OracleMask({"image": [0]}), StandardNoise())(MODEL, x, y)


def test_bad_numbers_are_found_inside_tokens():
    x, y = good()
    tokens = Tokens(torch.full((8, 2, 2), math.nan), torch.zeros(8, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="'text' holds 32 NaN or Inf of 32 numbers"):
        SynIB(RandomMask(), StandardNoise())(MODEL, {**x, "text": tokens}, y)


def test_whoever_asks_not_to_look_is_not_told():
    objective = SynIB(RandomMask(), StandardNoise(), check=False)
    x, y = good()
    loss, _ = objective(MODEL, {**x, "image": with_bad([2], math.nan)}, y)
    assert loss.isnan()
    bernoulli = SynIB(RandomMask(), StandardNoise(), family=Bernoulli(), check=False)
    model = FusionModel.mlp({"image": 3, "text": 2}, hidden=[4], classes=1)
    assert bernoulli(model, x, torch.full((8,), 2.0))[0].isfinite()


@pytest.mark.parametrize("check", [None, True])
def test_on_the_cpu_every_batch_is_looked_at(check):
    objective = SynIB(RandomMask(), StandardNoise(), check=check)
    x, y = good()
    objective(MODEL, x, y)
    with pytest.raises(ValueError, match="'image' holds 1 NaN"):
        objective(MODEL, {**x, "image": with_bad([2], math.nan)}, y)


def test_a_plain_callable_may_have_any_modalities():
    loss, _ = SynIB(RandomMask(), StandardNoise())(
        lambda m: m["x"] + m["y"], {"x": torch.randn(8, 3), "y": torch.randn(8, 3)}, torch.arange(8) % 3
    )
    assert loss.isfinite()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subsets": "all"}, "subsets is 'each' or 'proper'; got 'all'"),
        ({"sample": 0}, "sample is a whole number of at least 1; got 0"),
        ({"draws": 0}, "draws is a whole number of at least 1; got 0"),
        ({"draws": 3, "debias": True}, "even with debias=True; got draws=3"),
        ({"draws": 1, "debias": True}, "even with debias=True; got draws=1"),
        ({"unimodal_weight": -1.0}, "unimodal_weight is a number of at least 0; got -1.0"),
        ({"unimodal_weight": math.nan}, "unimodal_weight is a number of at least 0; got nan"),
        ({"weight": -2.0}, "weight of the penalty is a number of at least 0; got -2.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SynIB(**settings)


def test_padding_that_does_not_fit_its_tokens_is_refused():
    words = synib.Tokens(torch.zeros(4, 3, 2), torch.zeros(4, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"padding of 'text' is boolean, \(4, 3\); got torch.bool, \(4, 5\)"):
        check_modalities({"text": words, "image": torch.zeros(4, 2)})


def test_a_name_with_a_dot_is_refused():
    with pytest.raises(ValueError, match=r"without a dot in it; got 'a\.b'"):
        check_modalities({"a.b": torch.zeros(4, 2), "c": torch.zeros(4, 2)})
